package simulation

import (
	"context"
	"fmt"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// running is the world of the history that runs now.
var running atomic.Pointer[World]

// tellPanics makes a panic in a goroutine of Kubernetes' libraries a failure of the running history. By default the panic would
// end the process, and the history could not be shrunk.
func tellPanics() {
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) {
		if w := running.Load(); w != nil {
			w.fail("panic: %v\n%s", r, ownFrames(string(debug.Stack())))
		}
	}}
}

// ownFrames are the lines of a stack that are not about the runtime and the handling of panics.
func ownFrames(stack string) string {
	_, after, found := strings.Cut(stack, "\npanic(")
	if !found {
		return stack
	}
	lines := strings.Split(after, "\n")
	return strings.Join(lines[min(2, len(lines)):min(14, len(lines))], "\n")
}

// standstill is the real time after which a history counts as stuck and all goroutines are dumped. A history takes less than a
// second.
const standstill = 2 * time.Minute

// Live runs a history in a bubble, in which time passes as fast as all goroutines become idle. A goroutine that is left is a
// failure.
func Live(t *testing.T, h *History, prepare func(*World)) (w *World) {
	defer running.Store(nil)
	// kube-scheduler listens for this signal and never stops listening: the channel would keep the bubble and its world in
	// memory.
	defer signal.Reset(syscall.SIGUSR2)
	stuck := time.AfterFunc(standstill, func() {
		debug.SetTraceback("all")
		panic(h.command() + ": virtual time stands still: somebody waits for a mutex whose holder sleeps, or does something again and again that is neither a request nor an attempt")
	})
	defer stuck.Stop()
	defer func() {
		if left := recover(); left != nil {
			if w = running.Load(); w == nil {
				panic(left)
			}
			w.fail("goroutine left: %v\n%s", left, inBubble())
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = h.Run(func(begun *World) {
			running.Store(begun)
			if prepare != nil {
				prepare(begun)
			}
		})
	})
	return w
}

// inBubble returns the stacks of the goroutines that are in a bubble.
func inBubble() string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(head, "synctest bubble") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// command returns the command that runs the history again.
func (h *History) command() string {
	command := fmt.Sprintf("go test ./test/simulation -run TestHistories -seed %d -histories 1 -steps %d", h.seed, h.length)
	if h.also != "" {
		command += fmt.Sprintf(" -about %q", h.also)
	}
	return command
}
