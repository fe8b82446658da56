package harness

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// parallelTests is the default of Options.Parallel.
const parallelTests = 12

// Main implements TestMain of a package of tests: it starts a cluster, passes it to
// use, runs the tests, and if they pass, checks the whole cluster. It returns the exit
// status of the process. If anything fails, it keeps the folder of logs. It calls the
// functions in atEnd after the tests and before the check.
func Main(m *testing.M, o Options, use func(*Cluster), atEnd ...func() error) int {
	flag.Parse()
	if !flagIsSet("test.parallel") {
		if err := flag.Set("test.parallel", fmt.Sprint(cmp.Or(o.Parallel, parallelTests))); err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	c, err := Start(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(c)
	status := m.Run()
	failed := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	for _, end := range atEnd {
		failed(end())
	}
	if status == 0 {
		failed(c.Check(ctx))
	}
	if err := c.Stop(); err != nil {
		// On a busy machine, the controllers of Kubernetes may exceed the time limit. The process ends now anyway.
		fmt.Fprintln(os.Stderr, err)
	}
	if status == 0 {
		failed(os.RemoveAll(c.Logs))
	} else {
		fmt.Fprintln(os.Stderr, "all logs are in", c.Logs)
	}
	return status
}

func flagIsSet(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
