// Command vulncheck looks with govulncheck whether known vulnerabilities are in programs, if the database can be reached. Where it
// cannot, it says so and does not fail, unless -required; any answer that is none of a database's is an error.
//
//	vulncheck -database https://vuln.go.dev ./cmd/scheduler ./cmd/guard
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

// patience limits the wait for an answer of the database.
const patience = 5 * time.Second

// errUnreachable says that there is no network, or no such host in it.
var errUnreachable = errors.New("cannot be reached")

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "govulncheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("vulncheck", flag.ContinueOnError)
	database := flags.String("database", "https://vuln.go.dev", "URL of the database (https or file)")
	required := flags.Bool("required", false, "fail if the database cannot be reached")
	if err := flags.Parse(args); err != nil {
		return err
	}
	err := probe(ctx, strings.TrimRight(*database, "/"))
	if errors.Is(err, errUnreachable) && !*required {
		fmt.Fprintln(out, "govulncheck: skipped:", err)
		return nil
	}
	if err != nil {
		return err
	}
	var problems []error
	for _, program := range flags.Args() {
		problems = append(problems, check(ctx, *database, program, out))
	}
	return errors.Join(problems...)
}

// probe asks the database for its index. A database in files needs no probe: govulncheck reports its faults.
func probe(ctx context.Context, database string) error {
	if !strings.HasPrefix(database, "http") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	url := database + "/index/modules.json.gz"
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return fmt.Errorf("the database at %s: %w", database, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the database at %s %w; set GOVULNDB to one that can be: %w", database, errUnreachable, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the database was asked for %s and answers %s; set GOVULNDB to a database", url, answer.Status)
	}
	return nil
}

// check builds a program as it is shipped, but for its table of symbols: without that, all that its modules have counts as being in it.
func check(ctx context.Context, database, program string, out io.Writer) (err error) {
	directory, err := os.MkdirTemp("", "vulncheck")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	binary := filepath.Join(directory, filepath.Base(program))
	if output, err := exec.CommandContext(ctx, "go", "build", "-o", binary, program).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", program, err, output)
	}
	fmt.Fprintln(out, "govulncheck:", program)
	command := scan.Command(ctx, "-mode", "binary", "-db", database, binary)
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}
