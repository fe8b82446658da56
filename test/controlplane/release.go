package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// otherStopTimeout is the time after which a server of another release that does not end is
// killed.
const otherStopTimeout = 20 * time.Second

// controllersSince maps controllers that older releases do not have to the first minor
// release of Kubernetes 1 that has them.
var controllersSince = map[string]uint{
	names.DeviceTaintEvictionController: 33,
	names.PodGroupProtectionController:  37,
}

// startOtherAPIServer starts the API server of another release, as startServers does for this
// one. etcd has to run. It sets c.apiServer.
func (c *ControlPlane) startOtherAPIServer(ctx context.Context, credentials credentials, socket string) error {
	listener, err := listenLoopback(c.folder.port())
	if err != nil {
		return err
	}
	c.apiServer = &apiServer{credentials: credentials, port: portOf(listener)}
	if err := listener.Close(); err != nil {
		return err
	}
	release, err := reservePort(c.apiServer.port)
	if err != nil {
		return fmt.Errorf("keep port %d on 127.0.0.1 for the API server: %w", c.apiServer.port, err)
	}
	c.onStop(release)
	server, err := c.startOther("kube-apiserver", apiServerFlags(credentials, etcdEndpoint(socket), c.apiServer.port, c.options))
	if err != nil {
		return err
	}
	c.onStop(server.stop)
	go c.watchComponent(c.etcd.component)
	go c.watchComponent(server)
	return c.waitAPIServer(ctx, server)
}

// startOtherControllers is startControllers for another release.
func (c *ControlPlane) startOtherControllers(credentials credentials) (*component, error) {
	kubeconfig := filepath.Join(c.folder.root, "controller-manager.kubeconfig")
	if err := c.apiServer.writeCertificateKubeconfig(kubeconfig, "system:kube-controller-manager", credentials.controllers); err != nil {
		return nil, fmt.Errorf("write the kubeconfig of kube-controller-manager: %w", err)
	}
	controllers, err := controllersOf(c.options.Release, controllerNames(c.options.NodeLifecycle))
	if err != nil {
		return nil, err
	}
	return c.startOther("kube-controller-manager", []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
		"--root-ca-file=" + credentials.clusterCA.certFile,
		"--feature-gates=" + assignments(c.options.FeatureGates),
		"--kube-api-qps=" + strconv.Itoa(clientQPS),
		"--kube-api-burst=" + strconv.Itoa(clientBurst),
		"--v=" + strconv.Itoa(c.options.LogVerbosity),
	})
}

// startOther runs an executable of the release, which writes to the log of all components.
func (c *ControlPlane) startOther(name string, flags []string) (*component, error) {
	if c.options.Restartable {
		return nil, errors.New("Options.Release and Options.Restartable are both set; servers of another release are child processes anyway, but cannot be restarted one by one")
	}
	binary, err := FindBinary(fmt.Sprintf("compat/%s-%s", name, c.options.Release))
	if err != nil {
		return nil, fmt.Errorf("%w; what is in bin/compat is built by \"make test-compat\"", err)
	}
	log, err := os.OpenFile(c.log.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer log.Close() // The child has its own.
	cmd := exec.Command(binary, flags...)
	cmd.Stdout, cmd.Stderr = log, log
	return startProcess(context.Background(), name, cmd, otherStopTimeout)
}

// controllersOf leaves out the controllers that a release does not have; they would be an error there.
func controllersOf(release string, controllers []string) ([]string, error) {
	parsed, err := version.ParseSemantic(release)
	if err != nil {
		return nil, fmt.Errorf("Options.Release: %w; it has to be like \"1.32.2\"", err)
	}
	return slices.DeleteFunc(controllers, func(name string) bool { return parsed.Minor() < controllersSince[name] }), nil
}

// apiServerFlags returns serverOptions as flags.
func apiServerFlags(c credentials, etcdEndpoint string, port int, o Options) []string {
	flags := []string{
		"--etcd-servers=" + etcdEndpoint,
		"--bind-address=" + net.IPv4(127, 0, 0, 1).String(),
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.apiServer.certFile,
		"--tls-private-key-file=" + c.apiServer.keyFile,
		"--advertise-address=" + net.IPv4(127, 0, 0, 1).String(),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceIPs,
		"--allow-privileged=true",
		"--shutdown-send-retry-after=true",
		"--client-ca-file=" + c.clusterCA.certFile,
		"--service-account-issuer=" + tokenIssuer,
		"--service-account-key-file=" + c.serviceAccountKey,
		"--service-account-signing-key-file=" + c.serviceAccountKey,
		"--requestheader-client-ca-file=" + c.frontProxyCA.certFile,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.frontProxy.certFile,
		"--proxy-client-key-file=" + c.frontProxy.keyFile,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--runtime-config=" + assignments(o.RuntimeConfig),
		"--feature-gates=" + assignments(o.FeatureGates),
		"--v=" + strconv.Itoa(o.LogVerbosity),
	}
	if !o.NodeLifecycle {
		flags = append(flags, "--disable-admission-plugins=TaintNodesByCondition")
	}
	return flags
}

// assignments returns the values as "a=true,b=false".
func assignments(values map[string]bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+strconv.FormatBool(values[name]))
	}
	return strings.Join(parts, ",")
}
