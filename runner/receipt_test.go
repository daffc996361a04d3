package runner_test

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockbox/runner"
)

//go:embed receipt.schema.json
var schemaText []byte

// schema is as much of JSON Schema as receipt.schema.json uses.
type schema struct {
	Schema               string `json:"$schema"`
	Title                string
	Type                 string
	AdditionalProperties *bool
	Required             []string
	Properties           map[string]*schema
	Items                *schema
	Enum                 []string
	Pattern              string
	Minimum, Maximum     *float64
}

func (s *schema) check(at string, v any) (bad []string) {
	fail := func(format string, args ...any) { bad = append(bad, at+": "+fmt.Sprintf(format, args...)) }
	text, isText := v.(string)
	n, isNumber := v.(float64)
	types := map[string]bool{"string": isText, "integer": isNumber && n == float64(int64(n)), "boolean": reflect.TypeOf(v) == reflect.TypeFor[bool](),
		"array": reflect.TypeOf(v) == reflect.TypeFor[[]any](), "object": reflect.TypeOf(v) == reflect.TypeFor[map[string]any](), "": true}
	if !types[s.Type] {
		fail("%T is no %s", v, s.Type)
		return bad
	}
	if s.Enum != nil && !(isText && slices.Contains(s.Enum, text)) {
		fail("%v is none of %q", v, s.Enum)
	}
	if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text) {
		fail("%q does not match %s", text, s.Pattern)
	}
	if s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum {
		fail("%v is out of range", n)
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			bad = append(bad, s.Items.check(fmt.Sprintf("%s[%d]", at, i), x)...)
		}
	case map[string]any:
		for _, k := range s.Required {
			if _, ok := v[k]; !ok {
				fail("no key %q", k)
			}
		}
		for k, x := range v {
			if p := s.Properties[k]; p != nil {
				bad = append(bad, p.check(at+"."+k, x)...)
			} else if s.AdditionalProperties != nil && !*s.AdditionalProperties {
				fail("key %q is not known", k)
			}
		}
	}
	return bad
}

// check holds a receipt against the schema.
func check(t *testing.T, r *runner.Receipt) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(schemaText)))
	d.DisallowUnknownFields()
	s := &schema{}
	must(t, d.Decode(s))
	b, err := json.Marshal(r)
	must(t, err)
	var v any
	must(t, json.Unmarshal(b, &v))
	for _, bad := range s.check("receipt", v) {
		t.Errorf("%s\n%s", bad, b)
	}
}

// Receipts have the committed shape, with what they must say in each kind of run.
// K-018, K-025
func TestReceipt(t *testing.T) {
	area()
	e := newEngine()
	names := []string{"plain"}
	if os.Getuid() == 0 {
		names = []string{"plain", "slot", "egress"}
	}
	for _, kind := range names {
		t.Run(kind, func(t *testing.T) {
			s, err := spec(kinds[kind](), "connect", "10.0.0.1:80", "3", "a-secret-value")
			must(t, err)
			s.Masks, s.Client, s.Sender = []string{"a-secret-value"}, "relay", "+15550100"
			weaker := kind == "egress" && older(t)
			if weaker {
				if _, err := supervise(s, e); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("this kernel cannot keep all of it, and the run was not refused: %v", err)
				}
				s.Weaker = []string{"unix"}
			}
			begin := time.Now()
			r, err := supervise(s, e)
			must(t, err)
			check(t, r)
			if r.Started.Before(begin.Add(-time.Second)) || r.Started.After(time.Now()) || r.MS < 1 || r.MS > time.Since(begin).Milliseconds() {
				t.Errorf("times: %v %d ms", r.Started, r.MS)
			}
			if r.Profile != "base" || r.ProfileSHA256 != s.Sealed.Profile().Hash() || r.Client != "relay" || r.Sender != "+15550100" {
				t.Errorf("%+v", r)
			}
			if got := strings.Join(r.Argv, " "); strings.Contains(got, "a-secret-value") || !strings.HasSuffix(got, "***") {
				t.Errorf("argv %q", got)
			}
			if u := r.Usage; u.CPUms < 0 || u.CPUms > 10_000 || u.MaxRSS < 100<<10 || u.MaxRSS > 1<<30 || u.PidsPeak == 0 || u.PidsPeak > 64 {
				t.Errorf("usage %+v", u)
			}
			asked := map[string]bool{"files": true, "syscalls": true, "egress": true, "unix": true, "limits": kind == "slot", "processes": true, "env": true, "fds": true}
			verified := map[string]bool{"files": true, "syscalls": true, "egress": true, "unix": true, "processes": true, "fds": true}
			if weaker != slices.Contains(r.Weaker, "unix") {
				t.Errorf("weaker %v", r.Weaker)
			}
			if weaker { // what holds nothing proves nothing
				verified["unix"] = false
			}
			if len(r.Layers) != len(asked) {
				t.Errorf("%d layers", len(r.Layers))
			}
			for _, l := range r.Layers {
				if l.Asked != asked[l.Layer] || l.Applied != l.Asked || l.Verified != verified[l.Layer] || l.Asked && l.By == "" {
					t.Errorf("layer %+v", l)
				}
			}
			if r.Complete || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "not listed") }) {
				t.Errorf("files are not observed, and it says so: complete %v, notes %q", r.Complete, r.Notes)
			}
			if kind == "egress" && (len(r.Denials) != 1 || r.Denials[0].Count != 3 || r.Denials[0].Target != "10.0.0.1:80") {
				t.Errorf("denials %+v", r.Denials)
			}
		})
	}
}

// The schema itself is not satisfied by less.
func TestSchemaRefuses(t *testing.T) {
	s := &schema{}
	must(t, json.Unmarshal(schemaText, s))
	for _, text := range []string{`{}`, `{"v":2}`, `[]`} {
		var v any
		must(t, json.Unmarshal([]byte(text), &v))
		if len(s.check("x", v)) == 0 {
			t.Errorf("%s passes", text)
		}
	}
}

// How the exit of lockbox follows from a receipt.
func TestExitCode(t *testing.T) {
	rows := []struct {
		exit runner.ReceiptExit
		want int
	}{
		{runner.ReceiptExit{}, 0},
		{runner.ReceiptExit{Code: 42}, 42},
		{runner.ReceiptExit{Code: 143, Signal: "SIGTERM"}, 143},
		{runner.ReceiptExit{Code: 137, Signal: "SIGKILL", Cause: "killed"}, 137},
		{runner.ReceiptExit{Code: 0, Cause: "timeout"}, 124},
		{runner.ReceiptExit{Code: 137, Signal: "SIGKILL", Cause: "timeout"}, 124},
		{runner.ReceiptExit{Code: 0, Cause: "memory"}, 137},
		{runner.ReceiptExit{Code: 0, Cause: "output"}, 137},
		{runner.ReceiptExit{Code: 7, Cause: "pids"}, 7},
	}
	for _, r := range rows {
		if got := (&runner.Receipt{Exit: r.exit}).ExitCode(); got != r.want {
			t.Errorf("%+v: %d, want %d", r.exit, got, r.want)
		}
	}
}
