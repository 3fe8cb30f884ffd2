// Package mcp connects the runtime to MCP servers: their tools, prompts, resources and skills.
//
// Most callers need [New] with the servers of a project, [Client.Start], which connects in the
// background, and [Client.Tools], which returns the tools of the servers that have answered so far. A
// server that fails does not stop anything: [Client.Servers] gives the reason, and the client tries
// again.
//
// Servers run as programs (stdio), are reached by streamable HTTP, or run in this process: a host
// supplies a [Server] with Open, which returns a [Conn], a connection with one JSON-RPC message per
// frame. Any transport can be used:
//
//	mcp.Server{Name: "calc", Open: func(ctx context.Context) (mcp.Conn, error) {
//		return conn, nil // ReadFrame and WriteFrame are called by the client, CloseConn ends it
//	}}
//
// The engine accepts such servers in Host.Servers; [Pipe] makes two connected ends, for a server in
// this process.
//
// Everything that a server sends is untrusted. The number of tools and the size of messages, texts and
// schemas are limited; names are reduced to the characters that models accept; and a server's hints
// about itself (such as read-only) allow nothing. Sampling and roots are not offered, because both are
// deprecated.
//
// Most programs start with package engine.
package mcp
