package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

const (
	// Client-side limits in requests per second. They are far above the rate that
	// one machine serves, so that only the API server limits requests.
	clientQPS   = 2000
	clientBurst = 4000

	// serviceAccountTokenLife is the lifetime of the token in a service account's
	// kubeconfig. Nothing renews the token.
	serviceAccountTokenLife = 30 * 24 * time.Hour
)

// restConfig returns the configuration of a client that identifies itself with a
// client certificate.
func (s *apiServer) restConfig(identity keyPair) *rest.Config {
	return &rest.Config{
		Host: s.url(),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   s.credentials.clusterCA.certFile,
			CertFile: identity.certFile,
			KeyFile:  identity.keyFile,
		},
		QPS:   clientQPS,
		Burst: clientBurst,
	}
}

// writeKubeconfig writes a kubeconfig in which user talks to the API server.
// It holds all credentials inline, so that the file can be moved.
func (s *apiServer) writeKubeconfig(path, userName string, user clientcmdapi.AuthInfo) error {
	ca, err := os.ReadFile(s.credentials.clusterCA.certFile)
	if err != nil {
		return err
	}
	const cluster = "quartermaster"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: s.url(), CertificateAuthorityData: ca}
	config.AuthInfos[userName] = &user
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: userName}
	config.CurrentContext = cluster
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, path)
}

func (s *apiServer) writeAdminKubeconfig(path string) error {
	return s.writeCertificateKubeconfig(path, "kubernetes-admin", s.credentials.admin)
}

// writeCertificateKubeconfig writes a kubeconfig with a client certificate.
func (s *apiServer) writeCertificateKubeconfig(path, userName string, identity keyPair) error {
	certPEM, err := os.ReadFile(identity.certFile)
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(identity.keyFile)
	if err != nil {
		return err
	}
	return s.writeKubeconfig(path, userName, clientcmdapi.AuthInfo{
		ClientCertificateData: certPEM,
		ClientKeyData:         keyPEM,
	})
}

// AdminConfig returns the configuration of a client that may do everything
// (group system:masters). It is a new copy on each call, with client-side
// limits that are too high to matter.
func (c *ControlPlane) AdminConfig() *rest.Config {
	return c.apiServer.restConfig(c.apiServer.credentials.admin)
}

// AdminKubeconfig returns the absolute path of a kubeconfig file that may do
// everything (group system:masters). The file belongs to the data folder.
func (c *ControlPlane) AdminKubeconfig() string { return c.folder.adminKubeconfig() }

// ServiceAccountKubeconfig returns the absolute path of a kubeconfig file
// whose token is the named service account's. RBAC decides on its rights.
// The service account has to exist. The token comes from the TokenRequest
// API, is valid for 30 days and as long as the service account exists; each
// call requests a new one and replaces the file.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	failed := func(err error) (string, error) {
		return "", fmt.Errorf("kubeconfig for service account %s/%s: %w", namespace, name, err)
	}
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return failed(err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(serviceAccountTokenLife / time.Second))},
	}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return failed(fmt.Errorf("%w; create the service account first, for instance with the manifests that define it", err))
	}
	if err != nil {
		return failed(fmt.Errorf("request a token: %w", err))
	}
	path := c.folder.serviceAccountKubeconfig(namespace, name)
	user := "system:serviceaccount:" + namespace + ":" + name
	if err := c.apiServer.writeKubeconfig(path, user, clientcmdapi.AuthInfo{Token: token.Status.Token}); err != nil {
		return failed(err)
	}
	return path, nil
}
