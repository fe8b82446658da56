package controlplane

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

const (
	// serviceIPs is the range of cluster IPs. Nothing routes them here, but
	// every cluster has the "kubernetes" service.
	serviceIPs = "10.0.0.0/16"
	// tokenIssuer is the issuer of service account tokens, as kubeadm names it.
	tokenIssuer = "https://kubernetes.default.svc.cluster.local"
)

// controllersSince maps controllers that older releases do not have to the first minor
// release of Kubernetes 1 that has them.
var controllersSince = map[string]uint{
	names.DeviceTaintEvictionController: 33,
	names.PodGroupProtectionController:  37,
}

// controllerNames returns the controllers of kube-controller-manager that run: those
// that claims and the common workloads need, and those that every namespace needs
// before a pod can be created in it.
func controllerNames(nodeLifecycle bool) []string {
	enabled := []string{
		names.ResourceClaimController,
		names.DeviceTaintEvictionController,
		names.GarbageCollectorController,
		names.PodGarbageCollectorController,
		names.PodGroupProtectionController, // only with the gate GenericWorkload
		names.DeploymentController,
		names.ReplicaSetController,
		names.StatefulSetController,
		names.DaemonSetController,
		names.JobController,
		names.CronJobController,
		names.TTLAfterFinishedController,
		names.DisruptionController,
		names.NamespaceController,
		names.ResourceQuotaController,
		names.ServiceAccountController,
		names.RootCACertificatePublisherController,
		names.ClusterRoleAggregationController,
	}
	if nodeLifecycle {
		enabled = append(enabled, names.NodeLifecycleController, names.TaintEvictionController)
	}
	return enabled
}

// controllersOf leaves out the controllers that a release does not have; they would be an error there.
// An empty release has all of them.
func controllersOf(release string, controllers []string) ([]string, error) {
	if release == "" {
		return controllers, nil
	}
	parsed, err := version.ParseSemantic(release)
	if err != nil {
		return nil, fmt.Errorf("Options.Release: %w; it has to be like \"1.32.2\"", err)
	}
	return slices.DeleteFunc(controllers, func(name string) bool { return parsed.Minor() < controllersSince[name] }), nil
}

// apiServerFlags returns the flags of kube-apiserver.
func (c *ControlPlane) apiServerFlags(credentials credentials) ([]string, error) {
	flags := []string{
		"--etcd-servers=" + c.etcdEndpoint,
		"--bind-address=" + net.IPv4(127, 0, 0, 1).String(),
		"--secure-port=" + strconv.Itoa(c.apiServer.port),
		"--tls-cert-file=" + credentials.apiServer.certFile,
		"--tls-private-key-file=" + credentials.apiServer.keyFile,
		"--advertise-address=" + net.IPv4(127, 0, 0, 1).String(),
		// Endpoints must not hold loopback addresses.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceIPs,
		"--allow-privileged=true",
		// Without it, a stop waits up to a minute for clients to end their watches.
		"--shutdown-send-retry-after=true",
		"--client-ca-file=" + credentials.clusterCA.certFile,
		"--service-account-issuer=" + tokenIssuer,
		"--service-account-key-file=" + credentials.serviceAccountKey,
		"--service-account-signing-key-file=" + credentials.serviceAccountKey,
		"--requestheader-client-ca-file=" + credentials.frontProxyCA.certFile,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + credentials.frontProxy.certFile,
		"--proxy-client-key-file=" + credentials.frontProxy.keyFile,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--runtime-config=" + assignments(c.options.RuntimeConfig),
	}
	if !c.options.NodeLifecycle {
		// This plugin taints each new node until the node lifecycle controller, which
		// does not run, finds it ready.
		flags = append(flags, "--disable-admission-plugins=TaintNodesByCondition")
	}
	if c.options.WebhookCertificate {
		config, err := writeWebhookConfig(credentials)
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--admission-control-config-file="+config)
	}
	return append(flags, c.commonFlags()...), nil
}

// controllerFlags returns the flags of kube-controller-manager. It writes the kubeconfig for it.
func (c *ControlPlane) controllerFlags(credentials credentials) ([]string, error) {
	kubeconfig := filepath.Join(c.folder.root, "controller-manager.kubeconfig")
	if err := c.apiServer.writeCertificateKubeconfig(kubeconfig, "system:kube-controller-manager", credentials.controllers); err != nil {
		return nil, fmt.Errorf("write the kubeconfig of kube-controller-manager: %w", err)
	}
	controllers, err := controllersOf(c.options.Release, controllerNames(c.options.NodeLifecycle))
	if err != nil {
		return nil, err
	}
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
		"--root-ca-file=" + credentials.clusterCA.certFile,
		"--kube-api-qps=" + strconv.Itoa(clientQPS),
		"--kube-api-burst=" + strconv.Itoa(clientBurst),
	}, c.commonFlags()...), nil
}

// commonFlags returns the flags that kube-apiserver and kube-controller-manager share.
func (c *ControlPlane) commonFlags() []string {
	flags := []string{
		"--feature-gates=" + assignments(c.options.FeatureGates),
		"--v=" + strconv.Itoa(c.options.LogVerbosity),
	}
	if c.options.EmulatedVersion != "" {
		flags = append(flags, "--emulated-version="+c.options.EmulatedVersion)
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
