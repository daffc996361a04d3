// Package escape holds the probe program and the test that runs it, first unconfined and then in a run.
//
// Each row of the table in table_test.go is one way out. Unconfined it must work, or the row says why it cannot work on such a
// host even there; in the run it must fail with one of the row's errnos, or be open for a reason that SECURITY.md names.
//
// # What it does not restrict
//
// Nothing: it only looks.
package escape
