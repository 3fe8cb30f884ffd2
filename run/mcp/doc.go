// Package mcp connects the runtime to MCP servers: their tools, prompts, resources and skills.
//
// Most callers need [New] with the servers of a project, [Client.Start], which connects in the
// background, and [Client.Tools], which returns the tools of the servers that have answered so far. A
// server that fails does not stop anything: [Client.Servers] gives the reason, and the client tries
// again.
//
// Servers run as programs (stdio), are reached by streamable HTTP, or belong to a host, which supplies a
// [Server] with Open. That returns a [Conn], a connection with one JSON-RPC message per frame, to whatever
// the host has. A server in the same process, made with the Go SDK, is one end of a [Pipe]:
//
//	mcp.Server{Name: "calc", Open: func(ctx context.Context) (mcp.Conn, error) {
//		near, far := mcp.Pipe()
//		go server.Run(context.WithoutCancel(ctx), mcp.Transport(far))
//		return near, nil
//	}}
//
// The engine accepts such servers in Host.Servers.
//
// Everything that a server sends is untrusted. The number of tools and the size of messages, texts and
// schemas are limited; names are reduced to the characters that models accept; and a server's hints
// about itself (such as read-only) allow nothing. Sampling and roots are not offered, because both are
// deprecated.
//
// Most programs start with package engine.
package mcp
