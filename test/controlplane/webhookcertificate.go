package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// webhookKubeconfig has the certificate that kube-apiserver shows to webhooks, all of them ("*"). It is
// the one that it shows to aggregated API servers: nobody else has one by that authority.
const webhookKubeconfig = `apiVersion: v1
kind: Config
users:
  - name: "*"
    user:
      client-certificate: %s
      client-key: %s
`

// webhookAdmissionConfig is kube-apiserver's --admission-control-config-file.
const webhookAdmissionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ValidatingAdmissionWebhook
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: WebhookAdmissionConfiguration
      kubeConfigFile: %s
`

// writeWebhookConfig writes what has kube-apiserver show webhooks a certificate, and returns the path of
// the admission configuration.
func writeWebhookConfig(c credentials) (string, error) {
	dir := filepath.Dir(c.frontProxy.certFile)
	kubeconfig, config := filepath.Join(dir, "webhooks.kubeconfig"), filepath.Join(dir, "admission.yaml")
	for path, content := range map[string]string{
		kubeconfig: fmt.Sprintf(webhookKubeconfig, c.frontProxy.certFile, c.frontProxy.keyFile),
		config:     fmt.Sprintf(webhookAdmissionConfig, kubeconfig),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("write what webhooks are asked with: %w", err)
		}
	}
	return config, nil
}

// WebhookClientCA is the path of the authority of the certificate that the API server shows to webhooks
// with Options.WebhookCertificate.
func (c *ControlPlane) WebhookClientCA() string { return c.folder.keyPair("front-proxy-ca").certFile }
