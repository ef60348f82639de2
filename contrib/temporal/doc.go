/*
Package temporal runs agents as workflows of Temporal, so that a run outlives its process, its machine and the server.

	worker, err := temporal.New(temporal.Config{Store: store, Open: open}) // in each process that works
	worker.Register(w)                                                    // w is a worker of the SDK
	c := &temporal.Client{Temporal: client, Store: store}                 // in each process that starts and answers runs
	run, err := c.Start(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "agents"}, temporal.Input{Session: id}, aycoder.User("fix the test"))
*/
package temporal
