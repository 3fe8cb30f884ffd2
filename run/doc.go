// Package run has no code: it is the page of the district of what happens in a turn, from a prompt to the last answer.
// Its packages know nothing of settings, trust, projects and front ends: what they need is passed to them.
//
//	llm          models: requests, streams of events, providers
//	media        images and documents, checked and made smaller before a model gets them
//	hook         programs of the user that look at each step
//	tool         what a model may call; tool/coding and the other tools are below it
//	session      the log of a conversation: the truth from which everything is rebuilt
//	checkpoint   files as they were before a command
//	mcp          tools that servers offer, and Knack's tools as a server
//	gate         one decision for each call: hooks, rules, answers, the user
//	agent        the loop: ask the model, run its calls, until it calls nothing
//
//	agent
//	  |
//	gate                              mcp
//	  |  \  \                        /   |
//	hook  |  session              tool    |       checkpoint
//	      |      |                  |     |       (imported by none of these)
//	    tool    llm                llm   llm
//
// It imports confine, the root package (what a skill is) and leaves. The districts engine, durable and the program may
// import it. The life of a call is in docs/life.md.
//
// Most programs start with package engine.
package run
