package slot

import (
	"errors"
	"fmt"
)

// An UnsupportedError says what this host lacks. It matches errors.ErrUnsupported.
type UnsupportedError struct {
	Feature string // what was wanted: "limit memory"
	Need    string // what it takes
	Have    string // what was found
	Hint    string // what the user can do; may be empty
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s is not possible here: need %s, have %s", e.Feature, e.Need, e.Have)
}

// Is makes errors.Is(err, errors.ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }
