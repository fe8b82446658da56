package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options are the options of a control plane. The zero value means a temporary
// data folder, Kubernetes' default feature gates and APIs, and no output on
// standard output and standard error.
type Options struct {
	// Dir is the data folder. It is made if it does not exist, and kept by
	// Stop, so that a later Start with the same folder finds the objects,
	// credentials and (if it is still free) the port of the earlier one.
	// One folder serves one control plane at a time.
	// Empty: a temporary folder, which Stop removes.
	Dir string

	// LogFile is the file to which etcd, the API server, the controllers and the
	// node simulator append their logs. Empty: "controlplane.log" in the data
	// folder. A log in a temporary data folder is removed with the folder; if
	// Start fails, the log is kept and the error names it.
	LogFile string

	// LogVerbosity is klog's -v for all components.
	// 0 is klog's default; from 4 on, etcd logs at level info, too.
	LogVerbosity int

	// FeatureGates overrides the defaults of Kubernetes for the API server and the controllers.
	FeatureGates map[string]bool

	// EmulatedVersion is an older minor release, such as "1.36", whose APIs and defaults of feature
	// gates the API server and the controllers have, as with --emulated-version of kube-apiserver.
	// It excludes Release. Empty: none.
	EmulatedVersion string

	// RuntimeConfig switches API versions on and off, as kube-apiserver's
	// --runtime-config does, for instance {"resource.k8s.io/v1beta2": true}.
	RuntimeConfig map[string]bool

	// NodeLifecycle makes nodes that report nothing unusable: it adds the admission
	// plugin TaintNodesByCondition and the controllers for node lifecycle and
	// taint eviction. A node is then usable only as long as something (see
	// StartSimulatedNodes) reports it ready. Without NodeLifecycle, a node is
	// usable as soon as its object exists.
	NodeLifecycle bool

	// WebhookCertificate makes the API server show a client certificate to admission
	// webhooks, signed by the authority of ControlPlane.WebhookClientCA. It is for 1.37 only.
	WebhookCertificate bool

	// Release is another release of Kubernetes, such as "1.32.2", whose kube-apiserver and
	// kube-controller-manager run, from the executables that FindBinary finds as
	// "compat/kube-apiserver-1.32.2" and so on. Empty: the one of go.mod, in bin/playground.
	Release string

	// KwokBinary is the path of the kwok executable that StartSimulatedNodes
	// runs. Empty: see FindBinary.
	KwokBinary string
}

// check returns an error for options that exclude each other.
func (o Options) check() error {
	if o.EmulatedVersion != "" && o.Release != "" {
		return errors.New("Options.EmulatedVersion and Options.Release are both set; another release cannot emulate one")
	}
	return nil
}

// dataFolder is the layout of the data folder. All paths are absolute.
type dataFolder struct {
	root string
	// temporary folders are removed when the control plane stops.
	temporary bool
}

// openDataFolder makes the data folder according to o.
func openDataFolder(o Options) (dataFolder, error) {
	if o.Dir == "" {
		root, err := os.MkdirTemp("", "quartermaster-controlplane-")
		if err != nil {
			return dataFolder{}, fmt.Errorf("make a temporary data folder for the control plane: %w; free space in %s or name another folder in Options.Dir", err, os.TempDir())
		}
		return dataFolder{root: root, temporary: true}, nil
	}
	root, err := filepath.Abs(o.Dir)
	if err != nil {
		return dataFolder{}, fmt.Errorf("data folder %q: %w", o.Dir, err)
	}
	// The folder holds private keys and an unauthenticated etcd socket.
	if err := os.MkdirAll(root, 0o700); err != nil {
		return dataFolder{}, fmt.Errorf("make the data folder of the control plane: %w; name a folder that can be written in Options.Dir", err)
	}
	return dataFolder{root: root}, nil
}

func (d dataFolder) etcd() string            { return filepath.Join(d.root, "etcd") }
func (d dataFolder) pki() string             { return filepath.Join(d.root, "pki") }
func (d dataFolder) log() string             { return filepath.Join(d.root, "controlplane.log") }
func (d dataFolder) lock() string            { return filepath.Join(d.root, "lock") }
func (d dataFolder) port() string            { return filepath.Join(d.root, "port") }
func (d dataFolder) adminKubeconfig() string { return filepath.Join(d.root, "admin.kubeconfig") }
func (d dataFolder) kwokConfig() string      { return filepath.Join(d.root, "kwok.yaml") }

// serviceAccountKubeconfig relies on the API: a namespace holds no dot, so
// that two service accounts never share a file.
func (d dataFolder) serviceAccountKubeconfig(namespace, name string) string {
	return filepath.Join(d.root, "serviceaccounts", namespace+"."+name+".kubeconfig")
}

// remove deletes a temporary folder and keeps a named one.
func (d dataFolder) remove() error {
	if !d.temporary {
		return nil
	}
	if err := os.RemoveAll(d.root); err != nil {
		return fmt.Errorf("remove the temporary data folder: %w", err)
	}
	return nil
}

// keepLog moves the log out of a temporary folder that is about to be
// removed, and returns its new path.
func (d dataFolder) keepLog(current string) (string, error) {
	if !d.temporary || filepath.Dir(current) != d.root {
		return current, nil
	}
	kept, err := os.CreateTemp("", "quartermaster-controlplane-*.log")
	if err != nil {
		return "", err
	}
	return kept.Name(), errors.Join(kept.Close(), os.Rename(current, kept.Name()))
}
