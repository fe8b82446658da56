package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/controlplane"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/test/checker"
)

const (
	// startTimeout is generous: the machine may be busy.
	startTimeout = 3 * time.Minute
	// parallelTests run at a time unless -parallel says something else. They
	// mostly wait, so that there can be more than processors.
	parallelTests = 12
)

// cluster is what all tests share.
var cluster struct {
	controlPlane *controlplane.ControlPlane
	// client acts as administrator.
	client  kubernetes.Interface
	objects *scenario.Objects
	// pods and claims are informers, so that waiting costs the API server nothing.
	informers informers.SharedInformerFactory
	// kubeconfig is the one of the scheduler's own identity.
	kubeconfig string
	// logs is the folder of all logs.
	logs string
}

func TestMain(m *testing.M) {
	flag.Parse()
	if !flagIsSet("test.parallel") {
		if err := flag.Set("test.parallel", fmt.Sprint(parallelTests)); err != nil {
			panic(err)
		}
	}
	os.Exit(run(m))
}

func flagIsSet(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func run(m *testing.M) int {
	if err := requireBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop, err := startCluster()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	if status == 0 {
		if err := checkWholeCluster(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	if err := stop(status == 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// requireBinaries fails early and says what to do.
func requireBinaries() error {
	var errs []error
	for _, name := range []string{"scheduler", "kwok", "kube-scheduler"} {
		_, err := controlplane.FindBinary(name)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nintegration tests run what is in bin: run make build bin/kube-scheduler", err)
	}
	return nil
}

// startCluster fills the variable cluster. The returned function ends everything;
// it removes the logs if they are of no use.
func startCluster() (stop func(logsAreUseless bool) error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "quartermaster-integration-")
	if err != nil {
		return nil, err
	}
	cluster.logs = dir
	cp, err := controlplane.Start(ctx, controlplane.Options{LogFile: filepath.Join(dir, "controlplane.log")})
	if err != nil {
		return nil, err
	}
	cluster.controlPlane = cp
	if err := setUpCluster(ctx, cp); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	informersCtx, stopInformers := context.WithCancel(context.Background())
	if err := startInformers(informersCtx); err != nil {
		stopInformers()
		return nil, errors.Join(err, cp.Stop())
	}
	return func(logsAreUseless bool) error {
		errs := []error{stopSharedScheduler()}
		stopInformers()
		cluster.informers.Shutdown()
		errs = append(errs, cp.Stop())
		if logsAreUseless {
			errs = append(errs, os.RemoveAll(dir))
		} else {
			fmt.Fprintln(os.Stderr, "all logs are in", dir)
		}
		return errors.Join(errs...)
	}, nil
}

func setUpCluster(ctx context.Context, cp *controlplane.ControlPlane) error {
	config := cp.AdminConfig()
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	cluster.client, cluster.objects = client, scenario.NewObjects(untyped)
	if err := manifests.Apply(ctx, config, manifests.Secondary, manifests.ApplyOptions{RBACOnly: true}); err != nil {
		return err
	}
	if cluster.kubeconfig, err = cp.ServiceAccountKubeconfig(ctx, manifests.Namespace, manifests.Name); err != nil {
		return err
	}
	return cp.StartSimulatedNodes(context.Background())
}

func startInformers(ctx context.Context) error {
	cluster.informers = informers.NewSharedInformerFactory(cluster.client, 0)
	pods := cluster.informers.Core().V1().Pods().Informer()
	claims := cluster.informers.Resource().V1().ResourceClaims().Informer()
	if err := watched.watch(pods, claims); err != nil {
		return err
	}
	cluster.informers.StartWithContext(ctx)
	cluster.informers.WaitForCacheSyncWithContext(ctx)
	return nil
}

// checkWholeCluster looks at everything at once after all tests.
func checkWholeCluster() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	violations, err := checker.WaitSettled(ctx, cluster.client, checker.Options{})
	if err != nil {
		return fmt.Errorf("check the cluster after all tests: %w", err)
	}
	if len(violations) > 0 {
		return fmt.Errorf("after all tests the cluster is not in order:\n%s", checker.Format(violations))
	}
	return nil
}
