package simulation

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	// The scheduler listens for a signal; the runtime's own goroutine for signals has to exist before the first bubble.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	// One of these sleeps by a clock that began outside the bubbles.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	tellPanics()
	metrics.Register()
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(600) // Some tens of MB are alive at a time. More garbage would not fit the processor's caches, and cost more than its collection.
	os.Exit(m.Run())
}
