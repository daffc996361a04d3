package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"lockbox/runner"
)

// report tells on stderr how a run ended: the limit that ended it, and, for a
// command that failed, what it was denied.
func (a *app) report(r *runner.Receipt, p *policy) {
	for _, line := range r.Lines() {
		a.say(line)
	}
	if r.ExitCode() == 0 {
		return
	}
	a.reportDenials(r)
	// Nothing tells us of denied files (see the receipt's notes), so only a
	// person at a terminal gets a word about them, and only where nothing else
	// explains the failure; not after a shell or an editor, which ends with
	// whatever its last command said.
	if !p.sealed.Profile().Process.TTY && r.Exit.Signal == "" && r.Exit.Cause == "" && len(r.Denials) == 0 && isTerminal(a.Err) {
		a.hint("if a file was denied: " + a.explainHint("PATH", "r|w|x"))
	}
}

// maxDenials is how many denials the end of a run lists; the receipt has all.
const maxDenials = 5

func (a *app) reportDenials(r *runner.Receipt) {
	shown := 0
	for i, d := range r.Denials {
		if d.Kind == "limit" { // Lines named it
			if d.Hint != "" {
				a.hint(d.Hint)
			}
			continue
		}
		if shown++; shown > maxDenials {
			a.say(fmt.Sprintf("denied: %d more (--receipt FILE has all)", len(r.Denials)-i))
			break
		}
		line := fmt.Sprintf("denied: %s %s %s", d.Kind, d.Op, d.Target)
		if d.Count > 1 {
			line += fmt.Sprintf(" (%d times)", d.Count)
		}
		a.say(line)
		if d.Hint != "" {
			a.hint(d.Hint)
		}
	}
}

// receiptFile is where the receipt goes. It is opened before the run starts,
// so that a place that cannot be written is an error while nothing happened.
type receiptFile struct {
	w       io.Writer
	file    *os.File // nil for none and for stdout
	created bool
}

func openReceipt(path string, stdout *os.File) (*receiptFile, error) {
	switch path {
	case "":
		return &receiptFile{}, nil
	case "-":
		return &receiptFile{w: stdout}, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("--receipt: %w", err)
	}
	return &receiptFile{w: f, file: f, created: created}, nil
}

// write prints the receipt as one line of JSON and closes the file.
func (r *receiptFile) write(receipt *runner.Receipt) error {
	if r.w == nil {
		return nil
	}
	data, err := json.Marshal(receipt)
	if err == nil {
		_, err = r.w.Write(append(data, '\n'))
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

// discard takes a file away again that we made for nothing.
func (r *receiptFile) discard() {
	if r.file == nil {
		return
	}
	r.file.Close()
	if r.created {
		os.Remove(r.file.Name())
	}
}
