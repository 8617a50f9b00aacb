// Renders the document. A pasted key is kept by the page alone and goes with it.

/** Sends requests to the API beside the page, which can lie below a path of its host. */
const besideThePage = (document) => ({ ...document, servers: [{ url: new URL('.', location.href).href.replace(/\/$/, '') }] });

const start = async () => {
  const answer = await fetch('openapi.json');
  SwaggerUIBundle({
    spec: besideThePage(await answer.json()),
    dom_id: '#api',
    presets: [SwaggerUIBundle.presets.apis],
    layout: 'BaseLayout',
    deepLinking: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    persistAuthorization: false,
    validatorUrl: null,
  });
};

start();
