// Package structure holds the test that keeps the shape of the repository:
// which package may import which, and which dependency has which one home. It
// has no code of its own:
//
//	go test ./hack/structure
//
// # What it does not restrict
//
// What a package does with what it may import.
package structure
