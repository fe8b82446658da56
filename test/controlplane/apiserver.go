package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	// serviceIPs is the range of cluster IPs. Nothing routes them here, but
	// every cluster has the "kubernetes" service.
	serviceIPs = "10.0.0.0/16"
	// tokenIssuer is the issuer of service account tokens, as kubeadm names it.
	tokenIssuer = "https://kubernetes.default.svc.cluster.local"
)

// apiServer is where kube-apiserver is found, and who may use it.
type apiServer struct {
	credentials credentials
	port        int
}

func (s *apiServer) url() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// startAPIServer starts kube-apiserver as a component of this process. It takes
// the listener over and returns before the server answers; see waitAPIServer.
func startAPIServer(listener net.Listener, c credentials, etcdEndpoint string, o Options) (*component, error) {
	failed := func(err error) (*component, error) { return nil, fmt.Errorf("start kube-apiserver: %w", err) }
	s := serverOptions(c, etcdEndpoint, o)
	s.SecureServing.Listener, s.SecureServing.BindPort = listener, portOf(listener)
	var err error
	if o.WebhookCertificate {
		if s.Admission.GenericAdmission.ConfigFile, err = writeWebhookConfig(c); err != nil {
			return failed(errors.Join(err, listener.Close()))
		}
	}
	// The name that Run would take stays taken for the life of the process.
	if s.InformerName, err = cache.NewInformerName("kube-apiserver"); err != nil {
		return failed(errors.Join(err, listener.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	completed, err := s.Complete(ctx)
	if err == nil {
		err = utilerrors.NewAggregate(completed.Validate())
	}
	if err != nil {
		cancel()
		s.InformerName.Release()
		return failed(errors.Join(err, listener.Close()))
	}
	return runComponent("kube-apiserver", cancel, func() error {
		defer s.InformerName.Release()
		defer listener.Close()
		return app.Run(ctx, completed)
	}), nil
}

// serverOptions are kube-apiserver's flags.
func serverOptions(c credentials, etcdEndpoint string, o Options) *options.ServerRunOptions {
	s := options.NewServerRunOptions()
	s.Etcd.StorageConfig.Transport.ServerList = []string{etcdEndpoint}

	s.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	s.SecureServing.ServerCert.CertKey = apiserveroptions.CertKey{CertFile: c.apiServer.certFile, KeyFile: c.apiServer.keyFile}
	s.GenericServerRunOptions.AdvertiseAddress = net.IPv4(127, 0, 0, 1)
	// Endpoints must not hold loopback addresses.
	s.EndpointReconcilerType = "none"
	s.ServiceClusterIPRanges = serviceIPs
	s.AllowPrivileged = true
	// Without it, Stop waits up to a minute for clients to end their watches.
	s.GenericServerRunOptions.ShutdownSendRetryAfter = true

	s.Authentication.ClientCert.ClientCA = c.clusterCA.certFile
	s.Authentication.ServiceAccounts.Issuers = []string{tokenIssuer}
	s.Authentication.ServiceAccounts.KeyFiles = []string{c.serviceAccountKey}
	s.ServiceAccountSigningKeyFile = c.serviceAccountKey
	s.Authentication.RequestHeader.ClientCAFile = c.frontProxyCA.certFile
	s.Authentication.RequestHeader.AllowedNames = []string{"front-proxy-client"}
	s.Authentication.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
	s.Authentication.RequestHeader.GroupHeaders = []string{"X-Remote-Group"}
	s.Authentication.RequestHeader.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	s.ProxyClientCertFile, s.ProxyClientKeyFile = c.frontProxy.certFile, c.frontProxy.keyFile

	s.Authorization.Modes = []string{"Node", "RBAC"}
	s.Admission.GenericAdmission.EnablePlugins = []string{"NodeRestriction"}
	if !o.NodeLifecycle {
		// It taints each new node until the node lifecycle controller, which
		// does not run, finds it ready.
		s.Admission.GenericAdmission.DisablePlugins = []string{"TaintNodesByCondition"}
	}
	for api, enabled := range o.RuntimeConfig {
		s.APIEnablement.RuntimeConfig[api] = strconv.FormatBool(enabled)
	}
	return s
}

// listenLoopback listens on the port that portFile names, so that clients of
// an earlier run find the server again, or else on a free one, which it
// writes to portFile.
func listenLoopback(portFile string) (net.Listener, error) {
	earlier, err := os.ReadFile(portFile)
	if err == nil {
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strings.TrimSpace(string(earlier)))
		if err == nil {
			return listener, nil
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port on 127.0.0.1: %w", err)
	}
	if err := os.WriteFile(portFile, []byte(strconv.Itoa(portOf(listener))+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }
