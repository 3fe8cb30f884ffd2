// Skills for loops with this vendor's library, apart from the program because nobody else needs the library.
module github.com/knack-agent/knack/adapt/openai

go 1.26.0

require (
	github.com/knack-agent/knack v0.0.0
	github.com/openai/openai-go/v3 v3.94.0
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/gofrs/flock v0.13.1 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	mvdan.cc/sh/v3 v3.14.1 // indirect
)

replace github.com/knack-agent/knack => ../../
