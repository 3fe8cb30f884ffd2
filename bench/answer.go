package bench

import "fmt"

// CallAnswer returns an answer in the Messages format, as a stream of events, with one call of a
// tool. n makes the call's ID unique; input is JSON.
func CallAnswer(n int64, tool, input string) string {
	return answer(fmt.Sprintf(`{"type":"tool_use","id":"call_%d","name":%q,"input":{}}`, n, tool),
		fmt.Sprintf(`{"type":"input_json_delta","partial_json":%q}`, input), "tool_use")
}

// TextAnswer returns an answer of text in the Messages format, as a stream of events.
func TextAnswer(text string) string {
	return answer(`{"type":"text","text":""}`, fmt.Sprintf(`{"type":"text_delta","text":%q}`, text), "end_turn")
}

func answer(block, delta, stop string) string {
	return fmt.Sprintf(`event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],`+
		`"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":%s}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":%s}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`, block, delta, stop)
}
