package kubectl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// offline annotates commands that read neither a cluster nor a dump: the shared flags do not concern them.
var offline = map[string]string{"offline": "true"}

func isOffline(command *cobra.Command) bool {
	for ; command != nil; command = command.Parent() {
		if command.Annotations["offline"] != "" || command.Name() == "completion" || command.Name() == "help" {
			return true
		}
	}
	return false
}

// connectionFlags returns the names of the flags that choose the cluster and the user. Like kubectl, only the command
// options lists them.
func connectionFlags() map[string]bool {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(flags)
	names := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { names[f.Name] = f.Name != "namespace" })
	return names
}

// subset returns the visible flags of a command that are to be shown.
func subset(command *cobra.Command, show func(*pflag.Flag) bool) *pflag.FlagSet {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && show(f) && some.Lookup(f.Name) == nil {
			some.AddFlag(f)
		}
	}
	command.LocalFlags().VisitAll(add)
	command.InheritedFlags().VisitAll(add)
	return some
}

// usage prints how a command is called, in kubectl's order.
func usage(command *cobra.Command) error {
	var parts []string
	section := func(title, text string) {
		if text = strings.TrimRight(text, " \n"); text != "" {
			parts = append(parts, title+":\n"+text)
		}
	}
	section("Examples", command.Example)
	var lines []string
	for _, sub := range command.Commands() {
		if sub.IsAvailableCommand() {
			lines = append(lines, fmt.Sprintf("  %-*s  %s", sub.NamePadding(), sub.Name(), sub.Short))
		}
	}
	section("Commands", strings.Join(lines, "\n"))
	connection := connectionFlags()
	section("Flags", subset(command, func(f *pflag.Flag) bool {
		return !connection[f.Name] && (!isOffline(command) || command.LocalFlags().Lookup(f.Name) != nil)
	}).FlagUsages())
	section("Usage", "  "+command.UseLine())
	tip := ""
	if command.HasAvailableSubCommands() {
		tip = fmt.Sprintf("Use \"%s COMMAND --help\" for more about a command.\n", command.CommandPath())
	}
	if !isOffline(command) {
		tip += fmt.Sprintf("Use \"%s options\" for the flags that choose the cluster and the user.\n", command.Root().DisplayName())
	}
	_, err := fmt.Fprintf(command.OutOrStderr(), "%s\n\n%s", strings.Join(parts, "\n\n"), tip)
	return err
}

func newOptionsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "options",
		Short:             "List the flags that choose the cluster and the user",
		Long:              "List the flags that every command has: they choose the cluster and the user, as in kubectl.",
		Example:           "  kubectl devices options",
		Annotations:       offline,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			connection := connectionFlags()
			flags := subset(command, func(f *pflag.Flag) bool { return connection[f.Name] })
			_, err := fmt.Fprintf(o.Out, "Every command has these flags:\n\n%s", flags.FlagUsages())
			return err
		},
	}
}

// noArgs refuses arguments.
func noArgs(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%q takes no arguments, and got %q; see %[1]s --help", command.CommandPath(), args)
}

// flagError names the command, and suggests a flag for one that does not exist.
func flagError(command *cobra.Command, err error) error {
	see := fmt.Sprintf("see %s --help", command.CommandPath())
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return fmt.Errorf("%w; %s", err, see)
	}
	typed := "--" + unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		typed = "-" + unknown.GetSpecifiedName()
	}
	return fmt.Errorf("unknown flag %s for %q.%s %s", typed, command.CommandPath(), meant(command, unknown), strings.ToUpper(see[:1])+see[1:])
}

// meant suggests long flags that are similar to an unknown one. Cobra finds similar commands; a command for each flag
// lets it find similar flags.
func meant(command *cobra.Command, unknown *pflag.NotExistError) string {
	if unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	subset(command, func(*pflag.Flag) bool { return true }).VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return didYouMean("--", flags.SuggestionsFor(unknown.GetSpecifiedName()))
}

// suggestionsAtMost bounds the suggestions of an error.
const suggestionsAtMost = 3

func didYouMean(prefix string, similar []string) string {
	if len(similar) == 0 {
		return ""
	}
	similar = similar[:min(len(similar), suggestionsAtMost)]
	return fmt.Sprintf(" Did you mean %s%s?", prefix, strings.Join(similar, " or "+prefix))
}
