// Package mcp connects the runtime to MCP servers: their tools, prompts,
// resources and skills.
//
// Most people want [New] with the servers of a project, [Client.Start], which
// connects in the background, and [Client.Tools], which are the tools of the
// servers that have answered so far. A server that fails does not stop
// anything: [Client.Servers] says why, and it is tried again.
//
// Servers run as programs (stdio), are reached by streamable HTTP, or live in
// this process: a host gives a [Server] with Open, which returns a [Conn], a
// connection that carries one JSON-RPC message in each frame. Any transport will
// do:
//
//	mcp.Server{Name: "calc", Open: func(ctx context.Context) (mcp.Conn, error) {
//		return conn, nil // ReadFrame and WriteFrame are called by the client, CloseConn ends it
//	}}
//
// The engine takes such servers in Given.Servers; [Pipe] makes two connected
// ends, for a server of this process.
//
// What a server sends is untrusted: the number of tools, and the size of
// messages, texts and schemas are bounded, names are reduced to the letters that
// models accept, and its hints about itself (read-only) allow nothing. Sampling
// and roots are not offered: both are deprecated.
package mcp
