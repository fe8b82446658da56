// Package servers has the servers of a control plane, for a process that is one of them: etcd,
// kube-apiserver and kube-controller-manager, with upstream's own flags. test/controlplane starts
// them. They are apart from that package so that only one program links them: bin/playground.
package servers

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// commands are the servers by the first argument of the program.
var commands = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"compact":                 newCompactCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
}

// Run runs the server that the first argument of the program names, and exits with it. It returns
// at once if the argument names none.
func Run() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		return
	}
	command := commands[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}
