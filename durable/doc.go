// Package durable has no code: it is the page of the district of work that outlives a process: batches of tasks,
// schedules, sessions in the background, and workers that take over what another left.
//
//	batch      a task, its states and result; the Queue, which is an interface; the report. batch/batchtest is what
//	           every queue must pass
//	schedule   when a task comes again
//	local      the queue of one machine, on SQLite (temporal/ has another one)
//	work       a worker: takes tasks, runs each in a session of the engine, heartbeats, records
//	background sessions without a terminal: each is a batch, its messages are tasks
//
//	          background
//	               |
//	   local     work ---> engine
//	     |  \      |
//	     | schedule|
//	     |    |    |
//	     +---> batch <--+
//
// The truth about a task is the log of its session: a queue knows only who works on it, until when. It imports the
// engine and what is below; of the districts, only the program imports it. docs/temporal.md has the other queue.
package durable
