package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/runner"
	"lockbox/runner/broker/wire"
	"lockbox/test/needs"
)

const refusal = "no such run, or not yours"

const owner, other, reader = 1001, 1002, 1003

// One row for each of the table, allowed and refused: root, the run's owner,
// another user, a member of the operator group. K-001, K-013
func TestTable(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	live, ended := newID(t), newID(t)
	holder := s.by(owner)
	holder.must(t, "prepare", wire.PrepareArgs{Run: live})
	must(t, s.write(&held{info: wire.Info{Run: ended, UID: owner}}, &runner.Receipt{Run: ended}))

	type yes [4]bool // root, owner, other, reader
	rows := map[string]struct {
		args any
		may  yes
	}{
		"hello":    {struct{}{}, yes{true, true, true, true}},
		"resolve":  {wire.ResolveArgs{}, yes{true, true, true, true}},
		"prepare":  {nil, yes{true, true, true, true}},
		"adopt":    {struct{}{}, yes{}},
		"kill-own": {struct{}{}, yes{}},
		"count":    {struct{}{}, yes{}},
		"finish":   {wire.FinishArgs{Receipt: []byte("{}")}, yes{}},
		"ps":       {struct{}{}, yes{true, true, true, true}},
		"kill":     {wire.RunArgs{Run: live}, yes{true, true, false, false}},
		"receipt":  {wire.RunArgs{Run: ended}, yes{true, true, false, true}},
		"metrics":  {struct{}{}, yes{true, false, false, true}},
	}
	for _, req := range slices.Sorted(maps.Keys(table)) {
		row, ok := rows[req]
		if !ok {
			t.Errorf("%s: no row of this test", req)
			continue
		}
		for i, uid := range []int{0, owner, other, reader} {
			var groups []int
			if uid == reader {
				groups = []int{operators}
			}
			who := s.by(uid, groups...)
			args := row.args
			if req == "prepare" {
				args = wire.PrepareArgs{Run: newID(t)}
			}
			fds := []int{0}[:table[req].fds] // stdin is no pidfd
			r := who.ask(t, req, args, fds...)
			if got := r.Error != refusal; got != row.may[i] {
				t.Errorf("%s by %d: %q, want allowed %v", req, uid, r.Error, row.may[i])
			} else if got && r.Error != "" {
				t.Errorf("%s by %d: %s", req, uid, r.Error)
			}
		}
	}
	if len(rows) != len(table) {
		t.Errorf("%d rows, the table has %d", len(rows), len(table))
	}

	// The connection that prepared a run, about that run.
	if r := holder.ask(t, "adopt", struct{}{}, 0); r.Error == refusal || r.Error == "" {
		t.Errorf("adopt of stdin by the supervisor: %q", r.Error)
	}
	holder.must(t, "kill-own", struct{}{})
	holder.must(t, "count", struct{}{})
	if r := holder.ask(t, "prepare", wire.PrepareArgs{Run: newID(t)}); !strings.Contains(r.Error, "already") {
		t.Errorf("a second run on one connection: %q", r.Error)
	}
	holder.must(t, "finish", wire.FinishArgs{Receipt: []byte("{}")})
	for _, req := range []string{"adopt", "kill-own", "count", "finish"} {
		if r := holder.ask(t, req, wire.FinishArgs{Receipt: []byte("{}")}, []int{0}[:table[req].fds]...); r.Error != refusal {
			t.Errorf("%s after finish: %q", req, r.Error)
		}
	}
}

// Nobody of the table and a zero row admit nobody, root included.
func TestZeroRow(t *testing.T) {
	s := &session{srv: &Server{}, peer: &Peer{UID: 0}, run: &held{}}
	if s.allowed(entry{}, 0, true) || s.allowed(entry{who: operator + 1}, 0, true) {
		t.Error("a row without a word on who may ask lets somebody through")
	}
}

// Another's run and none are told apart by nothing that is answered. K-013
func TestSameAnswer(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	live, ended, corrupt := newID(t), newID(t), newID(t)
	s.by(owner).must(t, "prepare", wire.PrepareArgs{Run: live})
	must(t, s.write(&held{info: wire.Info{Run: ended, UID: owner}}, &runner.Receipt{Run: ended}))
	must(t, os.WriteFile(s.receiptPath(corrupt), []byte("{"), 0o600))
	for _, req := range []string{"kill", "receipt"} {
		var want []byte
		for _, args := range []any{
			wire.RunArgs{Run: newID(t)}, wire.RunArgs{Run: live}, wire.RunArgs{Run: ended}, wire.RunArgs{Run: corrupt},
			wire.RunArgs{}, wire.RunArgs{Run: "../../../etc/passwd"}, map[string]any{"run": live, "more": 1}, map[string]any{"run": 7}, nil,
		} {
			got, err := json.Marshal(s.by(other).ask(t, req, args))
			must(t, err)
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s %v: %s, for an unknown run %s", req, args, got, want)
			}
		}
	}
	// The owner's answers differ: the control.
	if r := s.by(owner).ask(t, "kill", wire.RunArgs{Run: ended}); !strings.Contains(r.Error, "has ended") {
		t.Errorf("kill of one's own ended run: %q", r.Error)
	}
	if r := s.by(owner).ask(t, "receipt", wire.RunArgs{Run: live}); !strings.Contains(r.Error, "not ended") {
		t.Errorf("receipt of one's own live run: %q", r.Error)
	}
	if _, kills, _ := s.engine.of(live).state(); kills != 0 {
		t.Error("killed by another user")
	}
	s.by(owner).must(t, "kill", wire.RunArgs{Run: live})
	if _, kills, _ := s.engine.of(live).state(); kills != 1 {
		t.Error("not killed by its owner")
	}
}

// Everybody sees their own; root and operators see all. K-013
func TestPS(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	ids := map[int]string{}
	for _, uid := range []int{0, owner, other} {
		ids[uid] = newID(t)
		s.by(uid).must(t, "prepare", wire.PrepareArgs{Run: ids[uid], Profile: fmt.Sprint("p", uid), Argv: []string{"sleep"}, Memory: 9})
	}
	for _, row := range []struct {
		who  *session
		want []int
	}{{s.by(0), []int{0, owner, other}}, {s.by(owner), []int{owner}}, {s.by(other), []int{other}}, {s.by(reader), nil}, {s.by(reader, operators), []int{0, owner, other}}} {
		var got []wire.Info
		must(t, json.Unmarshal(row.who.must(t, "ps", struct{}{}), &got))
		if len(got) != len(row.want) {
			t.Errorf("uid %d sees %+v", row.who.peer.UID, got)
		}
		for _, i := range got {
			if !slices.Contains(row.want, i.UID) || i.Run != ids[i.UID] || i.Profile != fmt.Sprint("p", i.UID) || i.State != "prepared" || i.Memory != 9 || i.Net != "none" {
				t.Errorf("uid %d sees %+v", row.who.peer.UID, i)
			}
		}
	}
}

// However much runs have to say, the list fits a message.
func TestPSFits(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	const runs = 3000
	evil := strings.Repeat("\x01<", 128)
	for range runs {
		s.by(0).must(t, "prepare", wire.PrepareArgs{Run: newID(t), Profile: evil, Argv: []string{evil, evil, evil, evil}})
	}
	b := s.by(0).must(t, "ps", struct{}{})
	var got []wire.Info
	must(t, json.Unmarshal(b, &got))
	if len(b) > 4<<20-1024 || len(got) < 1000 || len(got[0].Argv) == 0 {
		t.Errorf("%d bytes, %d of %d runs", len(b), len(got), runs)
	}
}

// K-007
func TestRunsOfOneUser(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	for i := range maxRuns {
		if r := s.by(owner).ask(t, "prepare", wire.PrepareArgs{Run: newID(t)}); r.Error != "" {
			t.Fatalf("run %d: %s", i, r.Error)
		}
	}
	if r := s.by(owner).ask(t, "prepare", wire.PrepareArgs{Run: newID(t)}); !strings.Contains(r.Error, "at most 256") {
		t.Errorf("run 257: %q", r.Error)
	}
	s.by(other).must(t, "prepare", wire.PrepareArgs{Run: newID(t)})
	for range maxRuns + 1 {
		s.by(0).must(t, "prepare", wire.PrepareArgs{Run: newID(t)})
	}
	// What ends makes room.
	last := s.by(other)
	last.must(t, "prepare", wire.PrepareArgs{Run: newID(t)})
	before := len(s.runs)
	last.must(t, "finish", wire.FinishArgs{Receipt: []byte("{}")})
	if len(s.runs) != before-1 {
		t.Errorf("%d runs, before %d", len(s.runs), before)
	}
}

// An id is one run's for good: neither a live one's nor an ended one's can be
// taken, and the receipt stays. K-013
func TestIDTaken(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	id := newID(t)
	first := s.by(owner)
	first.must(t, "prepare", wire.PrepareArgs{Run: id})
	if r := s.by(other).ask(t, "prepare", wire.PrepareArgs{Run: id}); !strings.Contains(r.Error, "taken") {
		t.Errorf("a live id: %q", r.Error)
	}
	first.must(t, "finish", wire.FinishArgs{Receipt: []byte(`{"v":1,"profile":"mine"}`)})
	for _, uid := range []int{other, owner, 0} {
		if r := s.by(uid).ask(t, "prepare", wire.PrepareArgs{Run: id}); !strings.Contains(r.Error, "taken") {
			t.Errorf("an ended id by %d: %q", uid, r.Error)
		}
	}
	if err := s.write(&held{info: wire.Info{Run: id, UID: other}}, &runner.Receipt{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a receipt was replaced: %v", err)
	}
	var r runner.Receipt
	must(t, json.Unmarshal(s.by(owner).must(t, "receipt", wire.RunArgs{Run: id}), &r))
	if r.Profile != "mine" || r.Run != id {
		t.Errorf("receipt %+v", r)
	}
}

// A cgroup that cannot be made leaves no place taken.
func TestPrepareFails(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	s.engine.fail = errors.New("no room")
	id := newID(t)
	if r := s.by(owner).ask(t, "prepare", wire.PrepareArgs{Run: id}); r.Error != "no room" {
		t.Errorf("%q", r.Error)
	}
	s.engine.fail = nil
	s.by(owner).must(t, "prepare", wire.PrepareArgs{Run: id})
}

// A kill while the cgroup is being made does not say that it was done.
func TestKillDuringPrepare(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	s.engine.slow = make(chan struct{})
	id := newID(t)
	done := make(chan wire.Reply)
	go func() { done <- s.by(owner).ask(t, "prepare", wire.PrepareArgs{Run: id}) }()
	if !eventually(5*time.Second, func() bool { return s.holdOf(id) != nil }) {
		t.Fatal("never reserved")
	}
	if r := s.by(owner).ask(t, "kill", wire.RunArgs{Run: id}); r.Error == "" {
		t.Error("killed what is not there yet")
	}
	close(s.engine.slow)
	if r := <-done; r.Error != "" {
		t.Error(r.Error)
	}
	s.by(owner).must(t, "kill", wire.RunArgs{Run: id})
}

// Everything that is no request of this version is refused with words, not more.
func TestBadRequests(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	rows := []struct {
		body string
		fds  []int
		want string
	}{
		{``, nil, "bad request"},
		{`null`, nil, "protocol 0"},
		{`{}`, nil, "protocol 0"},
		{`{"v":2,"req":"hello"}`, nil, "protocol 2"},
		{`{"v":1,"req":"nothing"}`, nil, `no request "nothing"`},
		{`{"v":1,"req":"` + strings.Repeat("y", 5000) + `"}`, nil, "…"},
		{`{"v":1,"req":"hello","uid":0}`, nil, "unknown field"},
		{`{"v":1,"req":"hello"}{"v":1,"req":"ps"}`, nil, "after the message"},
		{`{"v":1,"req":"hello"}`, []int{0}, "carries 1 descriptors, want 0"},
		{`{"v":1,"req":"adopt"}`, nil, "carries 0 descriptors, want 1"},
		{`{"v":1,"req":"adopt"}`, []int{0, 1}, "carries 2 descriptors, want 1"},
		{`{"v":1,"req":"prepare"}`, nil, "EOF"},
		{`{"v":1,"req":"prepare","args":{"uid":0}}`, nil, "unknown field"},
		{`{"v":1,"req":"prepare","args":{"run":"x"}}`, nil, "bad run id"},
		{`{"v":1,"req":"resolve","args":{"hosts":["` + strings.Repeat(`","`, 300) + `"]}}`, nil, "more than 256"},
		{`{"v":1,"req":"resolve","args":{"hosts":["` + strings.Repeat("a", 254) + `"]}}`, nil, "longer than 253"},
	}
	for _, row := range rows {
		if r := s.by(owner).answer([]byte(row.body), row.fds); !strings.Contains(r.Error, row.want) || len(r.Error) > 300 || r.Body != nil {
			t.Errorf("%.60s: %.200q, want %q", row.body, r.Error, row.want)
		}
	}
	if len(s.runs) != 0 {
		t.Errorf("runs: %d", len(s.runs))
	}
}

// FuzzAnswer: no message ends the broker, opens what the table closes, or takes
// the place of a run without one.
func FuzzAnswer(f *testing.F) {
	for req := range table {
		f.Add([]byte(`{"v":1,"req":"`+req+`","args":{}}`), uint8(0))
		f.Add([]byte(`{"v":1,"req":"`+req+`","args":{"run":"01J8ZC5T4N7Q2R9V0W1X3Y5Z6A"}}`), uint8(1))
		f.Add([]byte(`{"v":1,"req":"`+req+`","args":{"receipt":{"v":1,"layers":[{"layer":"limits","applied":true}]}}}`), uint8(2))
	}
	if os.Geteuid() != 0 {
		return
	}
	s := quiet(f)
	f.Fuzz(func(t *testing.T, body []byte, n uint8) {
		var q wire.Request
		if wire.Decode(body, &q) == nil && q.Req == "resolve" {
			return // it would ask a name server
		}
		who := s.by(owner)
		if n&2 != 0 {
			who.must(t, "prepare", wire.PrepareArgs{Run: newID(t)})
		}
		had := who.run
		r := who.answer(body, []int{0}[:n&1])
		if r.V != wire.Version || r.Error != "" && r.Body != nil {
			t.Fatalf("%q: %+v", body, r)
		}
		if q.Req == "metrics" && r.Error == "" {
			t.Fatalf("%q: metrics for everybody", body)
		}
		who.end()
		if len(s.runs) != 0 {
			t.Fatalf("%q: %d runs left, had %v", body, len(s.runs), had)
		}
	})
}

// What a supervisor hands over of the cgroup, the network and the usage is not
// believed, and the rest says whose word it is. K-018, K-025
func TestReceiptOfTheBroker(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	_, pidfd := child(t, peer("sleep"))
	lie := `{"v":9,"run":"somebody else's","client":"door","sender":"root","profile":"p","usage":{"cpu_ms":1,"max_rss_bytes":1,"pids_peak":1},"denials_lost":0,
		"denials":[{"kind":"limit","op":"memory","count":1},{"kind":"net","op":"connect","target":"10.0.0.1:1","count":1000000}],
		"layers":[{"layer":"files","by":"landlock","asked":true,"applied":true,"verified":true},{"layer":"limits","by":"a fake","asked":true,"applied":true,"verified":true},{"layer":"egress","by":"cgroup programs","asked":true,"applied":true,"verified":true}]}`
	for _, row := range []struct {
		name           string
		args           wire.PrepareArgs
		adopt          bool
		limits, egress string
		applied        bool
		limitsBroker   bool
		egressVerified bool
	}{
		{name: "held", args: wire.PrepareArgs{Pids: 5, Egress: &runner.Egress{}}, adopt: true, limits: "a fake", egress: "cgroup programs", applied: true, egressVerified: true},
		{name: "never adopted", args: wire.PrepareArgs{Pids: 5, Egress: &runner.Egress{}}, limits: "a fake", egress: "cgroup programs"},
		{name: "no limit, no egress", adopt: true, limits: "applied by caller: a fake", egress: "applied by caller: cgroup programs", applied: true, egressVerified: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			who := s.by(0)
			row.args.Run = newID(t)
			who.peer.pidfd, _ = unix.PidfdOpen(os.Getpid(), 0)
			defer who.peer.Close()
			who.must(t, "prepare", row.args)
			if row.adopt {
				who.must(t, "adopt", struct{}{}, pidfd)
			}
			who.must(t, "finish", wire.FinishArgs{Receipt: []byte(lie)})
			var r runner.Receipt
			must(t, json.Unmarshal(s.by(0).must(t, "receipt", wire.RunArgs{Run: row.args.Run}), &r))
			if r.V != 1 || r.Run != row.args.Run || r.Client != "" || r.Sender != "" {
				t.Errorf("whose it is: %+v", r)
			}
			if r.Usage != (runner.Usage{CPUms: 7, MaxRSS: 1 << 20, PidsPeak: 3}) || r.DenialsLost != 2 {
				t.Errorf("usage %+v, lost %d", r.Usage, r.DenialsLost)
			}
			if len(r.Denials) != 2 || r.Denials[0].Target != "192.0.2.1:80" || r.Denials[0].Count != 5 || r.Denials[1].Kind != "limit" {
				t.Errorf("denials %+v", r.Denials)
			}
			files, limits, egress := r.Layers[0], r.Layers[1], r.Layers[2]
			if files.By != "applied by caller: landlock" || limits.By != row.limits || egress.By != row.egress || limits.Applied != row.applied || egress.Applied != row.applied || egress.Verified != row.egressVerified {
				t.Errorf("layers %+v", r.Layers)
			}
		})
	}
}

// A receipt that cannot be read is not the end of every receipt.
func TestBadReceipt(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	_, pidfd := child(t, peer("sleep"))
	for _, bad := range []string{`[]`, `{"more":1}`, `{"v":1,"notes":["` + strings.Repeat("x", maxReceipt) + `"]}`} {
		who := s.by(0)
		who.peer.pidfd, _ = unix.PidfdOpen(os.Getpid(), 0)
		id := newID(t)
		who.must(t, "prepare", wire.PrepareArgs{Run: id})
		who.must(t, "adopt", struct{}{}, pidfd)
		if r := who.ask(t, "finish", wire.FinishArgs{Receipt: []byte(bad)}); r.Error == "" || !who.done {
			t.Errorf("%.20q was taken", bad)
		}
		who.peer.Close()
		var r runner.Receipt
		must(t, json.Unmarshal(s.by(0).must(t, "receipt", wire.RunArgs{Run: id}), &r))
		if r.Exit.Cause != "killed" || len(r.Notes) != 1 || r.Usage.PidsPeak != 3 {
			t.Errorf("receipt %+v", r)
		}
		if _, _, closings := s.engine.of(id).state(); closings != 1 {
			t.Error("the cgroup is still there")
		}
	}
	left, _ := os.ReadDir(s.cfg.Home + "/runner/receipts")
	for _, f := range left {
		if i, err := f.Info(); err != nil || i.Mode().Perm() != 0o600 || strings.HasSuffix(f.Name(), ".new") {
			t.Errorf("%s: %v %v", f.Name(), i.Mode(), err)
		}
	}
}

// Labels come from a fixed set, or from names; whatever a caller sends, the text
// can be read.
func TestMetrics(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	for _, profile := range []string{"git", "a\"b\n", "ü", "x\x00y", strings.Repeat("long", 60)} {
		who := s.by(owner)
		who.must(t, "prepare", wire.PrepareArgs{Run: newID(t), Profile: profile})
		who.must(t, "finish", wire.FinishArgs{Receipt: []byte(`{"v":1,"ms":-99999999,"denials":[{"kind":"evil\"","by":"x","count":18446744073709551615}]}`)})
	}
	var text string
	must(t, json.Unmarshal(s.by(0).must(t, "metrics", struct{}{}), &text))
	for _, want := range []string{"lockbox_runs_total 5\n", "lockbox_runs_live 0\n", "lockbox_events_lost_total 10\n",
		`lockbox_denials_total{kind="net",by="cgroup:connect4",profile="git"} 5` + "\n", `lockbox_denials_total{kind="net",by="cgroup:connect4",profile="other"} 15` + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "evil") || strings.Contains(text, "_seconds -") || strings.Contains(text, `\x`) {
		t.Errorf("a caller's words:\n%s", text)
	}
	for i := range maxLabels + 10 {
		s.ended(&held{info: wire.Info{Profile: fmt.Sprint("p", i), Started: time.Now()}}, runner.Counted{Denials: []runner.Denial{{Kind: "net", By: "x", Count: 1}}})
	}
	if len(s.denials) > maxLabels+1 {
		t.Errorf("%d labels", len(s.denials))
	}
}
