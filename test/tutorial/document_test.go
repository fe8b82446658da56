package tutorial

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// step is something that the reader does.
type step struct {
	kind kind
	// line is where it is in the document.
	line int
	// commands are those of a block, or empty.
	commands string
	// output is what the document says that is printed; nil if it says nothing.
	output *string
}

type kind int

const (
	// runs is a block of commands that end.
	runs kind = iota
	// keepsRunning is a block of commands of which the last one does not end by itself.
	keepsRunning
	// interrupts is Ctrl-C for what keeps running.
	interrupts
	// notRun is a block of commands that needs a program which cannot be run here.
	notRun
)

// The comments that are steps, or belong to the block that follows.
const (
	keepsRunningComment = "<!-- keeps running"
	interruptComment    = "<!-- Ctrl-C"
	notRunComment       = "<!-- no test runs this block:"
)

var (
	// inlineCode is code in a sentence.
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	// notHere are programs that need containers. A block without any of them has to be run.
	notHere = regexp.MustCompile(`(?m)^(?:kind|helm|docker|podman) `)
	// programs are those whose commands are to be found in blocks.
	programs = []string{"kubectl", "make", "git", "kind", "helm", "docker", "podman", "go", "cd", "rm", "curl", "playground", "bin/playground"}
)

// reader goes through a document line by line.
type reader struct {
	steps []step
	prose []string
	// next is the kind of the next block of commands.
	next kind
}

// parse returns what the reader of a document does.
func parse(document string) ([]step, error) {
	lines := strings.Split(document, "\n")
	var r reader
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if language, isFence := strings.CutPrefix(line, "```"); isFence {
			end := slices.Index(lines[i+1:], "```")
			if end < 0 {
				return nil, fmt.Errorf("line %d: the block has no end", i+1)
			}
			content := strings.Join(lines[i+1:i+1+end], "\n") + "\n"
			if err := r.block(i+1, language, content); err != nil {
				return nil, err
			}
			i += end + 1
			continue
		}
		if err := r.line(i+1, line); err != nil {
			return nil, err
		}
	}
	if r.next != runs {
		return nil, errors.New("no block of commands follows the last comment")
	}
	return r.steps, r.checkProse()
}

func (r *reader) block(line int, language, content string) error {
	switch language {
	case "sh":
		if r.next == notRun && !notHere.MatchString(content) {
			return fmt.Errorf("line %d: nothing in this block needs a program that cannot be run here, so that it has to be run", line)
		}
		r.steps = append(r.steps, step{kind: r.next, line: line, commands: content})
		r.next = runs
		return nil
	case "text":
		if len(r.steps) == 0 || r.steps[len(r.steps)-1].output != nil {
			return fmt.Errorf("line %d: the output follows no commands", line)
		}
		if r.steps[len(r.steps)-1].kind == notRun {
			return fmt.Errorf("line %d: nobody compares the output of a block that is not run", line)
		}
		r.steps[len(r.steps)-1].output = &content
		return nil
	default:
		return fmt.Errorf("line %d: it is not known how to run a block of %q; use sh for commands, text for what they print", line, language)
	}
}

func (r *reader) line(number int, line string) error {
	switch {
	case strings.HasPrefix(line, keepsRunningComment):
		r.next = keepsRunning
	case strings.HasPrefix(line, notRunComment):
		r.next = notRun
	case strings.HasPrefix(line, interruptComment):
		r.steps = append(r.steps, step{kind: interrupts, line: number})
	case strings.Contains(line, "<!--"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"),
		strings.Contains(line, "~~~"), strings.Contains(line, "```"), strings.Contains(line, "<pre"), strings.Contains(line, "<code"):
		return fmt.Errorf("line %d: code or a comment that is not known: %q; commands are in blocks that begin with ```sh", number, line)
	default:
		r.prose = append(r.prose, line)
	}
	return nil
}

// checkProse looks for commands in sentences that are in no block.
func (r *reader) checkProse() error {
	var blocks strings.Builder
	for _, s := range r.steps {
		blocks.WriteString(s.commands)
	}
	for _, match := range inlineCode.FindAllStringSubmatch(strings.Join(r.prose, "\n"), -1) {
		words := strings.Fields(match[1])
		if len(words) < 2 || !slices.Contains(programs, words[0]) {
			continue
		}
		if !strings.Contains(blocks.String(), match[1]) && !slices.Contains(topics, match[1]) {
			return fmt.Errorf("the command %q is in a sentence and in no block, so that nothing runs it", match[1])
		}
	}
	return nil
}

// topics are commands that the document speaks of without asking the reader to run them.
var topics = []string{"kubectl describe"}
