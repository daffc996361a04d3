package sandbox

import (
	"errors"
	"fmt"
)

// ErrUnsupported is what every *UnsupportedError matches.
var ErrUnsupported = errors.ErrUnsupported

// UnsupportedError says that a profile needs a promise that this host cannot
// keep by any mechanism. It is never answered by a weaker run.
type UnsupportedError struct {
	Feature string // the promise, as --weaker names it: "metadata"
	Need    string // what would keep it: "user namespaces"
	Have    string // what was found: "user.max_user_namespaces is 0"
	Hint    string // the command or setting that helps
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("this host cannot enforce %q: needs %s, has %s", e.Feature, e.Need, e.Have)
}

// Is makes errors.Is(err, ErrUnsupported) hold.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// CannotEnforceError says that a rule of the profile has no sound enforcement,
// whatever the host.
type CannotEnforceError struct {
	Rule string // the rule's id
	Path string
	Why  string
	Hint string
}

func (e *CannotEnforceError) Error() string {
	return fmt.Sprintf("rule %s on %q cannot be enforced: %s", e.Rule, e.Path, e.Why)
}
