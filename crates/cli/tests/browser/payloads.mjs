// Texts that try to run a script. Each would set `globalThis.hit`, open a dialog or add an element if it became markup.

const RUN = "globalThis.hit=1";

export const PAYLOADS = [
  `<script>${RUN}</script>`, `<ScRiPt>${RUN}</sCrIpT>`, `<script src=data:,${RUN}></script>`, `</script><script>${RUN}</script>`, `<script/x>${RUN}</script>`,
  `<img src=x onerror=${RUN}>`, `<img src=x onerror="${RUN}">`, `<img/src=x/onerror=${RUN}>`, `<IMG """><SCRIPT>${RUN}</SCRIPT>">`, `<img src=1 href=1 onerror=${RUN}>`,
  `<svg onload=${RUN}>`, `<svg/onload=${RUN}>`, `<svg><script>${RUN}</script></svg>`, `<svg><animate onbegin=${RUN} attributeName=x dur=1s>`, `<svg><set onbegin=${RUN} attributeName=x>`,
  `<svg><use href="data:image/svg+xml,<svg id=x onload=${RUN}>#x">`, `<svg><a xlink:href="javascript:${RUN}"><text y=20>x</text></a></svg>`, `<math href="javascript:${RUN}">x</math>`,
  `<body onload=${RUN}>`, `<iframe src="javascript:parent.${RUN}">`, `<iframe srcdoc="<script>parent.${RUN}</script>">`, `<iframe onload=${RUN}>`, `<object data="javascript:${RUN}">`,
  `<embed src="javascript:${RUN}">`, `<video src=x onerror=${RUN}>`, `<video><source onerror=${RUN}></video>`, `<audio src=x onerror=${RUN}>`, `<input autofocus onfocus=${RUN}>`,
  `<select autofocus onfocus=${RUN}>`, `<textarea autofocus onfocus=${RUN}>`, `<button autofocus onfocus=${RUN}>`, `<details open ontoggle=${RUN}>`, `<marquee onstart=${RUN}>`,
  `<style>@keyframes x{}</style><b style="animation-name:x" onanimationstart=${RUN}>`, `<link rel=stylesheet href="data:text/css,*{x:y}" onload=${RUN}>`,
  `<link rel=import href="data:text/html,<script>${RUN}</script>">`, `<meta http-equiv=refresh content="0;url=javascript:${RUN}">`, `<base href="javascript:${RUN}//">`,
  `<form action="javascript:${RUN}"><button autofocus>x</button></form>`, `<form><button formaction="javascript:${RUN}">x`, `<a href="javascript:${RUN}">x</a>`, `<a href="java\tscript:${RUN}">x</a>`,
  `<isindex action="javascript:${RUN}" type=image>`, `<table background="javascript:${RUN}">`, `<div style="background:url(javascript:${RUN})">`, `<div onpointerenter=${RUN}>x</div>`,
  `<template><script>${RUN}</script></template>`, `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`, `<xmp><p title="</xmp><img src=x onerror=${RUN}>">`, `<title><img src=x onerror=${RUN}></title>`,
  `"><img src=x onerror=${RUN}>`, `'><img src=x onerror=${RUN}>`, `" onfocus=${RUN} autofocus x="`, `' onfocus=${RUN} autofocus x='`, `" onmouseover="${RUN}`, "`onerror=globalThis.hit=1`",
  `javascript:${RUN}`, `JaVaScRiPt:${RUN}`, `data:text/html,<script>${RUN}</script>`, `\u0000<script>${RUN}</script>`, `\u2028<script>${RUN}</script>`, `<\u0073cript>${RUN}</script>`,
  `%3Cscript%3E${RUN}%3C/script%3E`, `&lt;script&gt;${RUN}&lt;/script&gt;`, `&#60;script&#62;${RUN}`, `{{constructor.constructor('${RUN}')()}}`, `\${globalThis.hit=1}`, `#{globalThis.hit=1}`,
  `<!--><img src=x onerror=${RUN}>-->`, `<![CDATA[<img src=x onerror=${RUN}>]]>`, `<custom-element onclick=${RUN} tabindex=1 autofocus onfocus=${RUN}>`, `<dialog open onclose=${RUN}>`, `__proto__`, `constructor`,
];
