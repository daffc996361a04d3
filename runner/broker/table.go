package broker

import "lockbox/runner/broker/wire"

// who may ask a request.
type who uint8

const (
	nobody      who = iota // the zero value
	anyone                 // every peer that identify let through
	supervisor             // the connection that prepared a run, about that run
	ownerOrRoot            // the owner of the named run, or root
	readerOfRun            // ownerOrRoot, or a member of the operator group
	operator               // root, or a member of the operator group
)

// entry is one row of the table of authority.
type entry struct {
	who    who
	handle func(*session, wire.Request, []int) (any, error)
	fds    int // descriptors that the request carries
}

// table is everything that can be asked. What is not here is refused.
var table = map[string]entry{
	"hello":    {anyone, (*session).hello, 0},
	"resolve":  {anyone, (*session).resolve, 0},
	"prepare":  {anyone, (*session).prepare, 0},
	"adopt":    {supervisor, (*session).adopt, 1},
	"kill-own": {supervisor, (*session).killOwn, 0},
	"count":    {supervisor, (*session).count, 0},
	"finish":   {supervisor, (*session).finish, 0},
	"ps":       {anyone, (*session).ps, 0},
	"kill":     {ownerOrRoot, (*session).kill, 0},
	"receipt":  {readerOfRun, (*session).receipt, 0},
	"metrics":  {operator, (*session).metrics, 0},
}

// allowed decides by the table alone. The run is the one that the request names,
// nil where it names none or there is none.
func (s *session) allowed(e entry, owner int, named bool) bool {
	root := s.peer.UID == 0
	switch e.who {
	case anyone:
		return true
	case supervisor:
		return s.run != nil
	case ownerOrRoot:
		return named && (root || owner == s.peer.UID)
	case readerOfRun:
		return named && (root || owner == s.peer.UID || s.srv.isOperator(s.peer))
	case operator:
		return root || s.srv.isOperator(s.peer)
	}
	return false
}
