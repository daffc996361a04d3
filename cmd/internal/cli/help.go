package cli

import (
	"fmt"
	"strings"
)

// help prints the list of commands, or the help text of one.
func (a *app) help() int {
	if len(a.args) == 0 {
		a.print(overview())
		return exitOK
	}
	name := strings.Join(a.args, " ")
	if c := lookup(name); c != nil {
		a.print(helpText(c))
		return exitOK
	}
	if verbs := verbsOf(name); len(verbs) > 0 {
		a.print(groupText(name))
		return exitOK
	}
	return a.fail(withHint(fmt.Errorf("no help for %q", name), "`lockbox help` lists the commands"))
}

func overview() string {
	var b strings.Builder
	b.WriteString("lockbox runs a command confined by the kernel.\n\n")
	b.WriteString("    lockbox run -p git -- git fetch\n")
	b.WriteString("    lockbox explain -p git file ~/.ssh/id_ed25519 r\n\n")
	b.WriteString("Commands:\n")
	rows := make([][2]string, 0, len(commands))
	for _, c := range commands {
		rows = append(rows, [2]string{c.name, c.short})
	}
	table(&b, rows)
	b.WriteString("\n`lockbox help COMMAND` shows flags and exit codes.\n")
	return b.String()
}

func groupText(group string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: lockbox %s %s\n\n", group, strings.Join(verbsOf(group), " | "))
	var rows [][2]string
	for _, c := range commands {
		if strings.HasPrefix(c.name, group+" ") {
			rows = append(rows, [2]string{c.usage(), c.short})
		}
	}
	table(&b, rows)
	return b.String()
}

func helpText(c *command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: lockbox %s\n\n%s.\n", c.usage(), upperFirst(c.short))
	if c.long != "" {
		b.WriteString("\n" + c.long + "\n")
	}
	b.WriteString("\nFlags:\n")
	var rows [][2]string
	for _, f := range c.allFlags() {
		left := "    --" + f.long
		if f.short != "" {
			left = "-" + f.short + ", --" + f.long
		}
		if f.arg != "" {
			left += " " + f.arg
		}
		rows = append(rows, [2]string{left, f.help})
	}
	table(&b, rows)
	return b.String()
}

// table prints two columns; a left side that is too wide gets a line of its
// own.
func table(b *strings.Builder, rows [][2]string) {
	const widest = 30
	width := 0
	for _, r := range rows {
		if len(r[0]) <= widest {
			width = max(width, len(r[0]))
		}
	}
	for _, r := range rows {
		if len(r[0]) > widest {
			fmt.Fprintf(b, "  %s\n  %*s  %s\n", r[0], width, "", r[1])
			continue
		}
		fmt.Fprintf(b, "  %-*s  %s\n", width, r[0], r[1])
	}
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
