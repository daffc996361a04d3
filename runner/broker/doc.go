// Package broker is the privileged half of lockbox as a service: it gives the
// runs of every user a cgroup, limits and an egress entry, keeps their receipts,
// and answers who runs what.
//
//	srv, err := broker.New(broker.Config{Home: "/var/lib/lockbox", RunDir: "/run/lockbox", Engine: engine.New("/run/lockbox")})
//	err = srv.Serve(listener)
//
//	c, err := broker.Dial("/run/lockbox/runner.sock")   // implements runner.Engine
//	receipt, err := run.Supervise(ctx, c)
//
// A terminal's run stays the child of the terminal's own lockbox. The broker
// only prepares the cgroup and moves the child into it, before the child has run
// a single step of its script:
//
//	lockbox run (the user)                  broker (root)
//	----------------------                  -------------
//	connect, hello            ───────────►  who is it? inside a run: refused
//	prepare limits, egress    ───────────►  cgroup, limits, egress entry, registry
//	clone the child, which waits on a pipe
//	adopt (its pidfd)         ───────────►  the peer's own child? move it
//	let the child go on
//	… wait …
//	count                     ───────────►  kill what is left, read the counters
//	finish (the receipt)      ───────────►  store it, remove everything
//
// The connection is the supervisor's life: when it ends before finish, the
// broker kills the run and writes the receipt itself.
//
// What a peer may ask is one table: request, who, handler (table.go). Every
// request is hostile input: bounded in size and depth, unknown keys refused.
//
// Needs Linux 5.4 for pidfds; SO_PEERPIDFD is 6.5. Root, and cgroup v2.
//
// # What it does not restrict
//
// The layers inside a terminal's run are applied by the caller, and a user may
// run anything unconfined anyway: the broker's word covers the cgroup, the
// limits, the network entry and the counters. Before Linux 6.5 the peer's
// process is found by its number, which could have been used again in between.
package broker
