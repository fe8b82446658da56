// Command progress runs a go command that compiles (go build -v, go vet -v) and shows in one line
// how far it is and how much is left, instead of the name of each package. On a terminal
// the line is rewritten, elsewhere there is a new one now and then.
//
//	progress go build -v -o bin/ ./cmd/scheduler ./cmd/guard
//
// What "go build" has to compile is asked of "go list" while the command runs already. The time that is
// left is estimated from the size of the sources. Of other commands, and with PROGRESS=brief, only what is done is shown: the list
// takes two seconds of a processor.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: progress go build|vet -v [flags] packages")
		os.Exit(2)
	}
	err := run(os.Args[1:], os.Stderr)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "progress:", err)
		os.Exit(1)
	}
}

// run runs the command and shows its progress on out. What the command prints besides names of packages
// is passed on.
func run(command []string, out io.Writer) error {
	work := make(chan []pkg, 1)
	if list := listCommand(command); list != nil && os.Getenv("PROGRESS") != "brief" {
		go func() { work <- stale(list) }()
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), roomForCompilers(os.Getenv)...)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	follow(output, work, newDisplay(out))
	return cmd.Wait()
}

// roomForCompilers are variables that have compilers collect no garbage until there are two GiB of
// it, unless the user has decided otherwise. They live for seconds and rarely need half of that;
// collecting takes a fourth of their time.
func roomForCompilers(getenv func(string) string) []string {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return []string{"GOGC=off", "GOMEMLIMIT=2GiB"}
}

var packageName = regexp.MustCompile(`^[A-Za-z0-9_./~-]+$`)

// follow reads what a go command prints until it ends.
func follow(output io.Reader, work <-chan []pkg, show *display) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(output); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	tick := time.NewTicker(show.every)
	defer tick.Stop()
	done := newTally(time.Now())
	for {
		select {
		case line, open := <-lines:
			switch {
			case !open:
				show.end()
				return
			case packageName.MatchString(line):
				done.compiled(line)
			default:
				show.pass(line)
			}
		case packages := <-work:
			done.expect(packages)
		case now := <-tick.C:
			show.state(done.state(now))
		}
	}
}
