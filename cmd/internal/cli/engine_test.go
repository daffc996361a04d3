package cli_test

import (
	"lockbox/runner"
	"lockbox/runner/engine"
)

func newEngine() runner.Engine { return engine.New(runner.RunDir()) }
