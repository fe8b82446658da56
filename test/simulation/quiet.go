package simulation

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
)

// quietContext is the context with which a scheduler is made. kube-scheduler's recorders of metrics look for work each second,
// at a thousand places, and nobody reads the metrics of a simulation: that would be a third of all that it costs. For those
// who start a recorder the context is over already, so the recorder ends after its first look. Others see the context as it is.
type quietContext struct {
	context.Context
	// made is set as soon as the scheduler is made.
	made atomic.Bool
}

// ended is the channel of a context that is over.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// recording are the functions that hand the context's end to a recorder, and to nobody else who needs it.
var recording = []string{"k8s.io/kubernetes/pkg/scheduler.New", "k8s.io/kubernetes/pkg/scheduler/framework/runtime.NewFramework"}

// Done implements context.Context.
func (c *quietContext) Done() <-chan struct{} {
	if !c.made.Load() {
		var callers [1]uintptr
		if runtime.Callers(2, callers[:]) == 1 {
			frame, _ := runtime.CallersFrames(callers[:]).Next()
			for _, name := range recording {
				if strings.HasSuffix(frame.Function, name) {
					return ended
				}
			}
		}
	}
	return c.Context.Done()
}
