package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/quartermaster-dra/quartermaster/internal/guard/server"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	// inPlaceMetric is 1 once the scheduler knows of a guard.
	inPlaceMetric = "quartermaster_guard_in_place"
	// inPlaceWithin is how long that may take: a scheduler seldom looks for a guard that is not there.
	inPlaceWithin = 2 * time.Minute
)

// startGuard has the API server ask a guard, which is a process of its own, until the workload ends, and
// allow no allocation without it. It returns when the scheduler knows.
func startGuard(tCtx ktesting.TContext, logFile string) error {
	kubeconfig := filepath.Join(filepath.Dir(logFile), "guard.kubeconfig")
	if err := writeKubeconfig(kubeconfig, tCtx.RESTConfig()); err != nil {
		return fmt.Errorf("identity of the guard: %w", err)
	}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: server.Namespace}}
	if _, err := tCtx.Client().CoreV1().Namespaces().Create(tCtx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	process, err := scheduler.Start(tCtx, scheduler.Options{
		Binary: *guardFlag, Kubeconfig: kubeconfig, Flags: true, LogFile: logFile,
		ExtraArgs: []string{"--register=url", "--failure-policy=Fail"},
	})
	if err != nil {
		return fmt.Errorf("the guard: %w", err)
	}
	tCtx.TB().Cleanup(func() {
		if err := process.Stop(); err != nil {
			tCtx.TB().Errorf("stop the guard: %v", err)
		}
	})
	return wait.PollUntilContextTimeout(tCtx, 100*time.Millisecond, inPlaceWithin, true, func(context.Context) (bool, error) {
		return knowsOfGuard()
	})
}

// writeKubeconfig writes a kubeconfig with the identity of a client.
func writeKubeconfig(path string, client *rest.Config) error {
	if client.CAFile != "" || client.CertFile != "" || client.BearerTokenFile != "" {
		return errors.New("the client of scheduler_perf has its identity in files, which is not expected")
	}
	const name = "scheduler_perf"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: client.Host, CertificateAuthorityData: client.CAData,
		TLSServerName: client.ServerName, InsecureSkipTLSVerify: client.Insecure}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: client.BearerToken, ClientCertificateData: client.CertData, ClientKeyData: client.KeyData}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, path)
}

// knowsOfGuard reports whether the scheduler in this process knows of a guard.
func knowsOfGuard() (bool, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return false, fmt.Errorf("gather the scheduler's metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() == inPlaceMetric {
			return family.GetMetric()[0].GetGauge().GetValue() == 1, nil
		}
	}
	return false, nil
}
