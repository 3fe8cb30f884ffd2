package format

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// readYAML reads a YAML document. What an alias stands for is not read: few files need it, and it can make a small file
// large.
func readYAML(data []byte, line int) (*value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, yamlError(err, line)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return &value{kind: null, line: line, column: 1}, nil
	}
	return fromYAML(doc.Content[0], line-1, 0)
}

// yamlError takes the line out of an error of the library, whose texts begin with "yaml: line 3: ".
func yamlError(err error, first int) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	var n int
	if _, e := fmt.Sscanf(message, "line %d:", &n); e == nil {
		_, message, _ = strings.Cut(message, ":")
		line = n
	}
	message, _, _ = strings.Cut(strings.TrimSpace(message), "\n")
	return &placed{line + first - 1, 1, "this is no YAML: " + message}
}

func fromYAML(n *yaml.Node, above, depth int) (*value, error) {
	v := &value{text: n.Value, line: n.Line + above, column: n.Column}
	if depth > maxDepth {
		return nil, &placed{v.line, v.column, fmt.Sprintf("values are nested deeper than %d", maxDepth)}
	}
	switch n.Kind {
	case yaml.AliasNode:
		return nil, &placed{v.line, v.column, "an alias (*" + n.Value + ") is not read: write the value itself"}
	case yaml.SequenceNode:
		v.kind = list
		for _, c := range n.Content {
			item, err := fromYAML(c, above, depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
		}
	case yaml.MappingNode:
		v.kind = object
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, err := fromYAML(n.Content[i], above, depth+1)
			if err != nil {
				return nil, err
			}
			item, err := fromYAML(n.Content[i+1], above, depth+1)
			if err != nil {
				return nil, err
			}
			v.fields = append(v.fields, field{name, item})
		}
	default:
		switch n.ShortTag() {
		case "!!null":
			v.kind = null
		case "!!bool":
			v.kind = truth
			v.text = strings.ToLower(n.Value)
		case "!!int", "!!float":
			v.kind = number
		default:
			v.kind = text
		}
	}
	return v, nil
}
