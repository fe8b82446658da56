// Command licenses collects the licences of what is linked into programs, and fails if there is one that is not allowed.
//
//	licenses -platforms linux/amd64,linux/arm64 -output bin/licenses .:./cmd/scheduler,./cmd/guard
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/quartermaster-dra/quartermaster/tools/dist/licenses"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("licenses", flag.ContinueOnError)
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms that the programs are built for")
	output := flags.String("output", "bin/licenses", "folder to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var sources []licenses.Source
	for _, arg := range flags.Args() {
		directory, packages, found := strings.Cut(arg, ":")
		if !found || packages == "" {
			return fmt.Errorf("asked for %q; it has to be a module's folder and packages in it, such as .:./cmd/scheduler,./cmd/guard", arg)
		}
		sources = append(sources, licenses.Source{Directory: directory, Packages: strings.Split(packages, ",")})
	}
	if len(sources) == 0 {
		return fmt.Errorf("no packages are given; name them as in .:./cmd/scheduler,./cmd/guard")
	}
	modules, err := licenses.Collect(ctx, strings.Split(*platforms, ","), sources...)
	if err != nil {
		return err
	}
	if err := licenses.Write(*output, modules); err != nil {
		return err
	}
	fmt.Printf("licenses: %d modules in %s\n", len(modules), *output)
	return nil
}
