package simulation

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
)

// quietContext is the context with which a scheduler is made. kube-scheduler's metrics recorders look for work each second at a
// thousand places. Nobody reads the metrics of a simulation, and the recorders would take a third of its time. The functions
// that start a recorder see this context as over, so the recorder ends after its first look. Other functions see the context as
// it is.
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

// recording lists the functions that pass the context's end to a recorder, and to nothing else that needs it.
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
