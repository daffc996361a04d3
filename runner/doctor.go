package runner

import "lockbox/sandbox"

// Doctor proves the layers that need no engine.
func Doctor() ([]sandbox.Feature, error) { return sandbox.Doctor(canary()) }
