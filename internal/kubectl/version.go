package kubectl

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"
)

// release is the version of Quartermaster. The linker sets it.
var release string

// ownVersion returns the version of Quartermaster: the linker's, or else that of the module that go install has built.
func ownVersion() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// versionOutput is the JSON of version.
type versionOutput struct {
	metav1.TypeMeta `json:",inline"`
	Version         string `json:"version"`
	// Kubernetes is the version of Kubernetes' libraries.
	Kubernetes string `json:"kubernetes"`
	GitCommit  string `json:"gitCommit,omitempty"`
	BuildDate  string `json:"buildDate,omitempty"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command",
		Long:  "Print the version of this command, and of the Kubernetes libraries in it. It asks no cluster.",
		Example: `  kubectl devices version

  # Only the version
  kubectl devices version -o jsonpath='{.version}'`,
		Annotations:       offline,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return o.version() },
	}
}

func (o *options) version() error {
	built := version.Get()
	kubernetes, _, _ := strings.Cut(built.GitVersion, "+")
	out := versionOutput{
		TypeMeta: kindOf("Version"), Version: ownVersion(), Kubernetes: kubernetes, GitCommit: built.GitCommit, BuildDate: built.BuildDate,
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if done, err := o.structured(out); done {
		return err
	}
	_, err := fmt.Fprintf(o.Out, "Version: %s\nKubernetes libraries: %s\nCommit: %s\nBuilt: %s with %s for %s\n",
		out.Version, out.Kubernetes, out.GitCommit, out.BuildDate, out.GoVersion, out.Platform)
	return err
}
