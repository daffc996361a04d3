package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockbox/profiles"
	"lockbox/sandbox"
)

// profileRow is one line of `profile list --json`.
type profileRow struct {
	Name    string   `json:"name"`
	Source  string   `json:"source"` // a path, or "preset"
	Extends []string `json:"extends"`
	Grants  string   `json:"grants"` // one line for people
	Error   string   `json:"error,omitempty"`
}

// profileList is `lockbox profile list`.
func (a *app) profileList() int {
	id := whoAmI()
	for _, name := range profileNames(id) {
		if a.opts.quiet {
			a.print(name + "\n")
			continue
		}
		row := profileRow{Name: name, Extends: []string{}}
		f, err := findProfile(name, id)
		if err != nil {
			row.Error = err.Error()
			row.Source = f.source
		} else {
			row.Source, row.Grants = f.source, summary(f.doc)
			row.Extends = append(row.Extends, f.doc.Extends...)
		}
		if a.opts.json {
			line, err := json.Marshal(row)
			if err != nil {
				return a.fail(err)
			}
			a.print(string(line) + "\n")
			continue
		}
		text := row.Grants
		if row.Error != "" {
			text = "error: " + oneLine(row.Error, 160)
		}
		a.printf("%-12s %-10s %s\n", name, oneLine(row.Source, 200), text)
	}
	return exitOK
}

// summary says in a line what a document adds.
func summary(d *profiles.Document) string {
	var parts []string
	if len(d.Extends) > 0 {
		parts = append(parts, "extends "+strings.Join(d.Extends, ", "))
	}
	if n := len(d.Files); n > 0 {
		var writable []string
		for _, r := range d.Files {
			if r.Access.Has(profiles.Write) {
				writable = append(writable, oneLine(r.Path, 60))
			}
		}
		text := fmt.Sprintf("%d file rules", n)
		if n == 1 {
			text = "1 file rule"
		}
		if len(writable) > 3 {
			writable = append(writable[:3], "…")
		}
		if len(writable) > 0 {
			text += " (writes " + strings.Join(writable, ", ") + ")"
		}
		parts = append(parts, text)
	}
	if d.Net.Mode != nil {
		parts = append(parts, "net "+d.Net.Mode.String())
	}
	return strings.Join(parts, "; ")
}

// profileShow is `lockbox profile show`.
func (a *app) profileShow() int {
	if a.opts.raw {
		return a.profileRaw()
	}
	a.opts.profiles = a.args
	p, err := loadPolicy(&a.opts)
	if err != nil {
		return a.fail(err)
	}
	a.print(p.sealed.Profile().String())
	for _, note := range p.sealed.Notes() {
		a.say("note: " + note)
	}
	return exitOK
}

func (a *app) profileRaw() int {
	f, err := openProfile(a.args[0], whoAmI())
	if err != nil {
		return a.fail(err)
	}
	if f.data == nil {
		f.data, _ = profiles.PresetText(f.name)
	}
	a.Out.Write(f.data)
	return exitOK
}

// profileCheck is `lockbox profile check`: every file is checked, and each
// error is one line. Warnings do not make a profile wrong.
func (a *app) profileCheck() int {
	code := exitOK
	for _, name := range a.args {
		warnings, err := checkProfile(name)
		if err != nil {
			a.fail(err)
			code = exitNo
			continue
		}
		a.printf("%s: ok\n", oneLine(name, maxLine))
		for _, w := range warnings {
			a.say(fmt.Sprintf("warning: %s: %s", name, w))
		}
	}
	return code
}

func checkProfile(name string) ([]profiles.Warning, error) {
	id := whoAmI()
	dir, err := workdir("")
	if err != nil {
		return nil, err
	}
	// The workspace of the moment does not matter to whether a profile is
	// right; a stand-in keeps the answer the same in every directory.
	ws, wsErr := workspace(dir, false, id)
	if wsErr != nil {
		ws = "/workspace"
	}
	ex := id.expand(ws)
	names := []string{name}
	profile, err := profiles.Load(names, lookupFor(names, id), ex)
	if err != nil {
		return nil, loadError(err)
	}
	sealed, err := sandbox.Seal(profile, ex, profiles.Terminal, sandbox.OSFS{})
	if err != nil {
		return nil, err
	}
	f, err := openProfile(name, id)
	if err != nil {
		return nil, err
	}
	return profiles.Check(f.doc, sealed.Sealed), nil
}

// profileDiff is `lockbox profile diff`.
func (a *app) profileDiff() int {
	var sides [2]*profiles.Profile
	for i, name := range a.args {
		p, err := loadPolicy(&options{profiles: []string{name}})
		if err != nil {
			return a.fail(err)
		}
		sides[i] = p.sealed.Profile()
	}
	changes := profiles.Diff(sides[0], sides[1])
	if len(changes) == 0 {
		return exitOK
	}
	a.printf("--- %s\n+++ %s\n", oneLine(a.args[0], maxLine), oneLine(a.args[1], maxLine))
	for _, c := range changes {
		a.print(oneLine(c.String(), maxLine) + "\n")
	}
	return exitNo
}

// profileSchema is `lockbox profile schema`.
func (a *app) profileSchema() int {
	a.print(string(profiles.Schema()))
	return exitOK
}
