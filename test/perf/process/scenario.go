package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// scenario is something that schedulers are measured in. Each has a table of its own.
type scenario struct {
	name, title string
	columns     []column
	// measure returns a value for each column. It leaves the cluster as it was.
	measure func(context.Context, *session) ([]float64, error)
}

// scenarios are all there are, in the order in which a process goes through them: the heap
// is measured before anything else happens, and the process is replaced at the end.
var scenarios = []scenario{podsScenario, republishScenario, flapScenario, restartScenario}

func names(of []scenario) []string {
	var result []string
	for _, s := range of {
		result = append(result, s.name)
	}
	return result
}

// choose returns those of the scenarios whose names are in a list with commas.
func choose(from []scenario, list string) ([]scenario, error) {
	known := names(from)
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("scenario %q is asked for and there is none of that name; choose some of %s", name, strings.Join(known, ","))
		}
	}
	return slices.DeleteFunc(slices.Clone(from), func(s scenario) bool { return !slices.Contains(wanted, s.name) }), nil
}

// measureSubject starts a scheduler and takes it through the scenarios.
func measureSubject(ctx context.Context, client kubernetes.Interface, kubeconfig string, s subject, o options,
	chosen []scenario, results map[string][]row) (err error) {
	if s.only != "" {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(c scenario) bool { return c.name != s.only })
	}
	if len(chosen) == 0 {
		return nil
	}
	pod, err := readPod(o)
	if err != nil {
		return err
	}
	process, err := start(ctx, kubeconfig, s, o)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := process.Stop(); err == nil {
			err = stopErr
		}
	}()
	session := &session{client: client, options: o, subject: s, process: process, pod: pod}
	if session.started, err = cpuTime(process.PID()); err != nil {
		return err
	}
	for _, c := range chosen {
		fmt.Printf("measure %s: %s\n", s.label, c.name)
		values, err := c.measure(ctx, session)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		results[c.name] = append(results[c.name], row{label: s.label, values: values})
	}
	return nil
}

// writeTables writes a table for each scenario that somebody has gone through.
func writeTables(w io.Writer, chosen []scenario, results map[string][]row) error {
	for _, s := range chosen {
		if len(results[s.name]) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s:\n\n", s.title); err != nil {
			return err
		}
		if err := writeTable(w, s.columns, results[s.name]); err != nil {
			return err
		}
	}
	return nil
}
