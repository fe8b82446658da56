package kubectl

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/web"
)

// newWeb returns the command that serves the map.
func newWeb(o *options) *cobra.Command {
	port, noBrowser := 0, false
	command := &cobra.Command{
		Use:   "web",
		Short: "Show the devices as a map in the browser",
		Long: `Show the devices as a map in the browser: nodes as tiles, devices as cells, waiting pods with the reason, and what
would fit. The map follows the cluster until you press Ctrl-C.

The page is served on 127.0.0.1 only, and only to browsers with the token in its address. It reads with your own
rights, and writes nothing.`,
		Example: `  # Open the map
  kubectl devices web

  # Print its address, on a port of your choice
  kubectl devices web --port 8080 --no-browser

  # The map of a dump
  kubectl devices web --from devices.json.gz`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return fmt.Errorf("--port is %d; use a port from 0 to 65535", port)
			}
			return o.web(command.Context(), port, !noBrowser)
		},
	}
	command.Flags().IntVar(&port, "port", 0, "Port on 127.0.0.1; 0 chooses a free one")
	command.Flags().BoolVar(&noBrowser, "no-browser", false, "Only print the address")
	return command
}

// web serves the map until the context ends.
func (o *options) web(ctx context.Context, port int, open bool) error {
	// Connect first: an address that does not work helps no user.
	show, name, err := o.mapSource(ctx)
	if err != nil {
		return err
	}
	shown := web.NewMap(name)
	server, err := web.Listen(shown, port)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.Out, server.Address)
	fmt.Fprintln(o.ErrOut, "Keep the address to yourself: anyone who has it sees what you may see. Press Ctrl-C to end.")
	if open {
		remove, err := openBrowser(server.Address)
		if err != nil {
			fmt.Fprintf(o.ErrOut, "No browser was opened: %v. Open the address yourself.\n", err)
		}
		defer remove()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { return show(ctx, shown) })
	return group.Wait()
}

// mapSource returns a function that shows the cluster or a dump on a map, and its name for people.
func (o *options) mapSource(ctx context.Context) (show func(context.Context, *web.Map) error, name string, err error) {
	if o.from != "" {
		snapshot, err := o.snapshot(ctx)
		if err != nil {
			return nil, "", err
		}
		return func(_ context.Context, shown *web.Map) error { return shown.Show(snapshot) }, "dump " + o.from, nil
	}
	source, err := o.source(ctx)
	if err != nil {
		return nil, "", err
	}
	name = "the cluster of your kubeconfig"
	if raw, err := o.config.ToRawKubeConfigLoader().RawConfig(); err == nil && raw.CurrentContext != "" {
		name = "context " + raw.CurrentContext
	}
	if o.config.Context != nil && *o.config.Context != "" {
		name = "context " + *o.config.Context
	}
	return func(ctx context.Context, shown *web.Map) error {
		return web.Follow(ctx, source.Client(), source.Namespace, shown)
	}, name, nil
}

// openBrowser opens an address. Other users of the machine can read process arguments, so the browser gets a file
// that only its user may read and that redirects to the address.
func openBrowser(address string) (remove func(), err error) {
	remove = func() {}
	file, err := os.CreateTemp("", "kubectl-devices-*.html") // with mode 0600
	if err != nil {
		return remove, fmt.Errorf("make a file that leads to the map: %w", err)
	}
	remove = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer><meta http-equiv=refresh content=\"0;url=%[1]s\"><a href=\"%[1]s\">map of devices</a>\n", html.EscapeString(address))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return remove, fmt.Errorf("write a file that leads to the map: %w", err)
	}
	name, arguments := "xdg-open", []string{file.Name()}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, arguments = "rundll32", []string{"url.dll,FileProtocolHandler", file.Name()}
	}
	command := exec.Command(name, arguments...)
	if err := command.Start(); err != nil {
		return remove, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = command.Wait() }()
	return remove, nil
}
