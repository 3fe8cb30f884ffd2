// Package confine has no code: it is the page of the district that decides what a call may do, and sees to it. Its
// packages know neither models nor tools nor skills, and can be used without the rest of Knack.
//
//	    git          runs git in repositories that may be hostile
//	     |
//	permission   what a call would do, and what the rules say: allow, ask, deny
//	     |       (permission/internal/bash reads shell lines)
//	     |
//	     |    workspace   where it happens: files and processes of this machine, of one behind ssh, of a container
//	     |        |
//	     +----+---+
//	          |
//	       sandbox        a workspace whose commands cannot leave it
//
// Permission answers questions and starts nothing but git, which it asks about a repository; workspace knows no rules;
// sandbox gives what permission calls protected to the kernel. The districts run, engine, durable and the program may
// import these packages; they import only leaves.
//
// Most programs start with package engine.
package confine
