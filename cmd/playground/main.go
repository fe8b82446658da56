// Command playground runs the scheduler on a simulated cluster on this
// machine: "playground demo" shows and checks what it does, "playground up"
// keeps a cluster running to try things out.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/quartermaster-dra/quartermaster/test/controlplane/servers"
	"github.com/quartermaster-dra/quartermaster/test/playground"
)

func main() {
	servers.Run()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly shutdown, the second one kills the process.
	context.AfterFunc(ctx, stop)
	err := playground.NewCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	// The demo has already printed its findings, and its summary must stay the last line.
	if !errors.Is(err, playground.ErrNotAsExpected) {
		fmt.Fprintf(os.Stderr, "playground: %v\n", err)
	}
	os.Exit(1)
}
