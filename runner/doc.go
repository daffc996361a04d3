// Package runner is the life of one confined run: prepare, start, watch, end,
// tell.
//
//	r, err := runner.Prepare(runner.Spec{Sealed: sealed, Argv: argv, Path: path, Dir: "/", Env: env})
//	if r.InPlace() {
//		return r.Exec()               // becomes the command, or returns why not
//	}
//	receipt, err := r.Supervise(ctx, engine)
//
// A run is supervised where something has to be looked after: a limit, a cgroup,
// a receipt, a user namespace, a carve-out that must be watched. Then the
// supervisor is the parent, the run has a pid namespace, and its init dies with
// the supervisor's thread: SIGKILL of the supervisor ends every process of the
// run at once. What a killed supervisor leaves on disk and in cgroupfs is
// removed by the next start.
//
// An [Engine] holds what costs time to link: cgroup slots and the egress
// programs. The thin command has none and hands over to lockbox-runner when a
// plan needs one.
//
// # What it does not restrict
//
// The runner starts and ends; package sandbox restricts. A process that was
// started in place is watched by nobody: it has no limits.
package runner
