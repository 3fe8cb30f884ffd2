// Package program has no code: it is the page of the district of the program knack: its command line and front ends.
//
//	cli        the commands; it starts the other front ends
//	line       a conversation line by line          tui        on the whole screen
//	control    JSON for hosts (stream-json, SDKs)   acp        editors (Agent Client Protocol)
//	serve      Knack as an MCP server               web        pages in a browser
//	show, editor, terminal                          what line and tui draw and read with
//
//	                cli
//	   /     /    |      |     \      \
//	line   tui  control  acp   serve   web  none imports another
//	   \   /
//	show, editor, terminal
//	     |
//	engine, engine/command, durable
//
// A front end gives the engine a Person, who answers questions, and shows the events of a conversation. It decides
// nothing: what two front ends need is in the engine. Nothing imports this district but cmd/knack, bench and temporal,
// which is why it is not below cmd/knack/internal.
package program
