package cli

import (
	"fmt"
	"strings"
)

// completion prints a script made from the table. Names of profiles are asked
// of `lockbox profile list -q` when the user presses the key.
func (a *app) completion() int {
	switch a.args[0] {
	case "bash":
		a.print(bashCompletion())
	case "zsh":
		a.print(zshCompletion())
	case "fish":
		a.print(fishCompletion())
	default:
		return a.fail(fmt.Errorf("unknown shell %q; allowed: bash, zsh, fish", a.args[0]))
	}
	return exitOK
}

// groups lists the first words that take a verb.
func groups() []string {
	var list []string
	for _, w := range firstWords() {
		if len(verbsOf(w)) > 0 {
			list = append(list, w)
		}
	}
	return list
}

func flagWords(c *command) string {
	var words []string
	for _, f := range c.allFlags() {
		words = append(words, f.String())
		if f.short != "" {
			words = append(words, "-"+f.short)
		}
	}
	return strings.Join(words, " ")
}

// valued lists the flags that take a value.
func valued(c *command) []string {
	var words []string
	for _, f := range c.allFlags() {
		if f.arg == "" {
			continue
		}
		words = append(words, f.String())
		if f.short != "" {
			words = append(words, "-"+f.short)
		}
	}
	return words
}

func bashCompletion() string {
	var b strings.Builder
	b.WriteString(`# bash completion of lockbox; source <(lockbox completion bash)
_lockbox_kind() {
    case "$1" in
    profile) COMPREPLY=($(compgen -W "$(lockbox profile list -q 2>/dev/null)" -- "$cur") $(compgen -f -- "$cur")) ;;
    file) COMPREPLY=($(compgen -f -- "$cur")) ;;
    dir) COMPREPLY=($(compgen -d -- "$cur")) ;;
    command) COMPREPLY=($(compgen -c -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$1" -- "$cur")) ;;
    esac
}

_lockbox() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" cmd="${COMP_WORDS[1]}" first=2 i n=0
    compopt -o filenames 2>/dev/null
    if [ "$COMP_CWORD" -eq 1 ]; then
`)
	fmt.Fprintf(&b, "        _lockbox_kind \"%s\"\n        return\n    fi\n    case \"$cmd\" in\n", strings.Join(firstWords(), " "))
	for _, g := range groups() {
		fmt.Fprintf(&b, "    %s)\n        if [ \"$COMP_CWORD\" -eq 2 ]; then _lockbox_kind \"%s\"; return; fi\n        cmd=\"%s ${COMP_WORDS[2]}\" first=3 ;;\n",
			g, strings.Join(verbsOf(g), " "), g)
	}
	b.WriteString("    esac\n    local flags=\"\" valued=\"\" trailer=\"\" args=()\n    case \"$cmd\" in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    \"%s\")\n        flags=\"%s\" valued=\" %s \"", c.name, flagWords(c), strings.Join(valued(c), " "))
		if c.trailer {
			b.WriteString(" trailer=1")
		}
		b.WriteString(" args=(")
		for i, kind := range c.values {
			if i > 0 {
				b.WriteString(" ")
			}
			fmt.Fprintf(&b, "%q", bashKind(kind))
		}
		b.WriteString(")\n")
		if c.hasValues() {
			b.WriteString("        case \"$prev\" in\n")
			for _, f := range c.allFlags() {
				if f.values == "" {
					continue
				}
				pattern := f.String()
				if f.short != "" {
					pattern = "-" + f.short + "|" + pattern
				}
				fmt.Fprintf(&b, "        %s) [ \"$COMP_CWORD\" -gt \"$first\" ] && { _lockbox_kind \"%s\"; return; } ;;\n", pattern, f.values)
			}
			b.WriteString("        esac\n")
		}
		b.WriteString("        ;;\n")
	}
	b.WriteString(`    *) return ;;
    esac
    for ((i = first; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
        --) [ -n "$trailer" ] && n=$((n + 1)) flags="" && [ "$((i + 1))" -eq "$COMP_CWORD" ] && n=0; break ;;
        -*) case "$valued" in *" ${COMP_WORDS[i]} "*) i=$((i + 1)) ;; esac ;;
        *) n=$((n + 1)); [ -n "$trailer" ] && { flags=""; break; } ;;
        esac
    done
    if [ -n "$flags" ] && [ "${cur:0:1}" = - ]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    fi
    [ "${#args[@]}" -eq 0 ] && return
    [ "$n" -ge "${#args[@]}" ] && n=$((${#args[@]} - 1))
    _lockbox_kind "${args[n]}"
}
complete -F _lockbox lockbox
`)
	return b.String()
}

func bashKind(kind string) string {
	if kind == "topic" {
		return strings.Join(firstWords(), " ")
	}
	return kind
}

func (c *command) hasValues() bool {
	for _, f := range c.allFlags() {
		if f.values != "" {
			return true
		}
	}
	return false
}

// zshQuote makes text safe inside the brackets of an _arguments
// specification in single quotes.
func zshQuote(s string) string {
	return strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(s)
}

func zshKind(kind string) string {
	switch kind {
	case "":
		return " "
	case "file":
		return "_files"
	case "dir":
		return "_files -/"
	case "profile":
		return "_lockbox_profiles"
	case "command":
		return "_command_names -e"
	case "topic":
		kind = strings.Join(firstWords(), " ")
	}
	return "(" + kind + ")"
}

func zshCompletion() string {
	var b strings.Builder
	b.WriteString(`#compdef lockbox
# zsh completion of lockbox; lockbox completion zsh > "${fpath[1]}/_lockbox"
_lockbox_profiles() {
    local -a names
    names=(${(f)"$(lockbox profile list -q 2>/dev/null)"})
    compadd -a names
    _files -g '*.toml'
}

_lockbox() {
    local -a rows
    if (( CURRENT == 2 )); then
        rows=(
`)
	for _, w := range firstWords() {
		short := ""
		if c := lookup(w); c != nil {
			short = c.short
		} else {
			short = strings.Join(verbsOf(w), ", ")
		}
		fmt.Fprintf(&b, "            '%s:%s'\n", w, strings.ReplaceAll(short, "'", `'\''`))
	}
	b.WriteString("        )\n        _describe command rows\n        return\n    fi\n    local cmd=$words[2]\n    case $cmd in\n")
	for _, g := range groups() {
		fmt.Fprintf(&b, "    %s)\n        if (( CURRENT == 3 )); then compadd %s; return; fi\n        cmd=\"%s $words[3]\"; shift words; (( CURRENT-- )) ;;\n",
			g, strings.Join(verbsOf(g), " "), g)
	}
	b.WriteString("    esac\n    shift words; (( CURRENT-- ))\n    case $cmd in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    \"%s\")\n        _arguments -S", c.name)
		for _, f := range c.allFlags() {
			spec := "[" + zshQuote(f.help) + "]"
			if f.arg != "" {
				spec += ":" + zshQuote(f.arg) + ":" + zshKind(f.values)
			}
			fmt.Fprintf(&b, " \\\n            '*--%s%s'", f.long, spec)
			if f.short != "" {
				fmt.Fprintf(&b, " \\\n            '*-%s%s'", f.short, spec)
			}
		}
		if c.trailer {
			b.WriteString(" \\\n            '*::: :_normal'")
		} else {
			for i, kind := range c.values {
				fmt.Fprintf(&b, " \\\n            '%d:%s:%s'", i+1, zshQuote(strings.Trim(c.args[min(i, len(c.args)-1)], "[]")), zshKind(kind))
			}
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("    esac\n}\n_lockbox \"$@\"\n")
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

func fishKind(kind string) string {
	switch kind {
	case "":
		return " -x"
	case "file", "dir":
		return " -r -F"
	case "profile":
		return " -r -F -a '(lockbox profile list -q 2>/dev/null)'"
	}
	return " -x -a " + fishQuote(kind)
}

func fishCompletion() string {
	var b strings.Builder
	b.WriteString("# fish completion of lockbox; lockbox completion fish | source\ncomplete -c lockbox -f\n")
	for _, w := range firstWords() {
		short := strings.Join(verbsOf(w), ", ")
		if c := lookup(w); c != nil {
			short = c.short
		}
		fmt.Fprintf(&b, "complete -c lockbox -n __fish_use_subcommand -a %s -d %s\n", w, fishQuote(short))
	}
	for _, g := range groups() {
		verbs := strings.Join(verbsOf(g), " ")
		for _, v := range verbsOf(g) {
			fmt.Fprintf(&b, "complete -c lockbox -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from %s' -a %s -d %s\n",
				g, verbs, v, fishQuote(lookup(g+" "+v).short))
		}
	}
	for _, c := range commands {
		first, verb, _ := strings.Cut(c.name, " ")
		when := "__fish_seen_subcommand_from " + first
		if verb != "" {
			when += "; and __fish_seen_subcommand_from " + verb
		}
		for _, f := range c.allFlags() {
			fmt.Fprintf(&b, "complete -c lockbox -n '%s' -l %s", when, f.long)
			if f.short != "" {
				fmt.Fprintf(&b, " -s %s", f.short)
			}
			if f.arg != "" {
				b.WriteString(fishKind(f.values))
			}
			fmt.Fprintf(&b, " -d %s\n", fishQuote(f.help))
		}
		if c.trailer {
			fmt.Fprintf(&b, "complete -c lockbox -n '%s' -x -a '(__fish_complete_subcommand --fcs-skip=2 %s)'\n", when, strings.Join(valued(c), " "))
			continue
		}
		for _, kind := range c.values {
			if kind == "topic" {
				kind = strings.Join(firstWords(), " ")
			}
			fmt.Fprintf(&b, "complete -c lockbox -n '%s'%s\n", when, fishKind(kind))
		}
	}
	return b.String()
}
