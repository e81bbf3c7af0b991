import { render } from "preact";
import { App } from "./app";
import { rememberedTheme } from "../common/colours";
import { SCHEMA, type Model } from "./model/types";

function start() {
  rememberedTheme();
  const home = document.getElementById("app")!;
  const data = document.getElementById("data")?.textContent ?? "";
  let model: Model;
  try {
    model = JSON.parse(data) as Model;
  } catch {
    home.textContent = "The data of this page cannot be read; the file is incomplete.";
    return;
  }
  if (model.schema !== SCHEMA) {
    home.textContent = `The data of this page has layout ${model.schema}; this program reads layout ${SCHEMA}. Make the page again.`;
    return;
  }
  render(<App model={model} />, home);
}

start();
