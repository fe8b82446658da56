package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLimits: a history in which far too much fails or is asked ends before its time, with a failure that says so.
func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(*World)
		fails int
		last  string
	}{
		"failures": {
			do: func(w *World) {
				for range 2 * mostFailures {
					w.fail("something is wrong")
				}
			},
			fails: mostFailures, last: "the history is ended after 50 failures",
		},
		"requests": {
			do: func(w *World) {
				for range mostRequests {
					_, _ = w.client.CoreV1().Pods(namespace).List(w.ctx, metav1.ListOptions{})
				}
			},
			fails: 1, last: "the history is ended after 50000 requests, mostly: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			late := false
			h := new(script).add(time.Second, name, test.do).add(time.Second, "the next step", func(*World) { late = true })
			w := Live(t, &History{seed: 1, replicas: 1, themes: map[string]bool{}, steps: h.steps}, nil)
			require.Len(t, w.failures, test.fails)
			require.Contains(t, w.failures[test.fails-1], test.last)
			require.False(t, late)
		})
	}
}
