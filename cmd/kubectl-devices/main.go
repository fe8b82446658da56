// kubectl devices shows the devices of a cluster: which devices exist, who holds them, why a pod waits, and what
// would fit.
// See docs/kubectl-devices.md.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // all that a kubeconfig may ask for
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl"
)

func main() {
	// Library logs only confuse users of a command; errors are returned as well.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := kubectl.New(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	status, text := kubectl.StatusOf(command.ExecuteContext(ctx))
	if text != "" {
		fmt.Fprintln(os.Stderr, "error: "+text)
	}
	stop()
	os.Exit(status)
}
